/// \file
/// Prints and parses kernel names of CK Tile's grouped convolutions; ck_tile.h contains the grammar.
#include <algorithm>
#include <array>

#include <kscout/conv_problem.h>

#include "provider/ck_tile/ck_tile.h"
#include "provider/name_reader.h"

namespace kscout {
namespace {

using enum CkConvAxis;
using Axes = std::uint32_t;  ///< a set with one bit per axis

constexpr Axes set_of(std::initializer_list<CkConvAxis> axes) {
  Axes set = 0;
  for (const CkConvAxis axis : axes) set |= 1u << static_cast<int>(axis);
  return set;
}
constexpr Axes kAllAxes = ~Axes{0};
static_assert(static_cast<int>(CkConvAxis::count) == 32);
/// The axes that the incomplete forms state.
constexpr Axes kOlderAxes = set_of({tile_m, tile_n, tile_k, pipeline});
constexpr Axes kShortAxes =
    kOlderAxes | set_of({scheduler, merged_groups, double_buffer, split_image, two_stage});
constexpr Axes kKeyAxes = set_of({tile_m, tile_n, tile_k, warp_m, warp_n, warp_k, warp_tile_m, warp_tile_n,
                                  warp_tile_k, pipeline, specialization});

constexpr CkConvAxis kDims[3][3] = {
    {tile_m, tile_n, tile_k}, {warp_m, warp_n, warp_k}, {warp_tile_m, warp_tile_n, warp_tile_k}};
constexpr std::string_view kDimNames[] = {"tile", "waves", "warp tile"};

struct DirectionWord {
  std::string_view word;
  Op op;
};
/// The first word of a direction is the one that the `full` form uses.
constexpr DirectionWord kDirectionNames[] = {
    {"fwd", Op::conv_fwd},     {"bwd_data", Op::conv_bwd_data}, {"bwd_weight", Op::conv_bwd_weight},
    {"forward", Op::conv_fwd}, {"bwdd", Op::conv_bwd_data},     {"bwdw", Op::conv_bwd_weight}};

constexpr std::string_view kRanks[] = {"2d", "3d"};

/// Suffixes that set one axis to 1.
struct FlagSuffix {
  std::string_view word;
  CkConvAxis axis;
};
constexpr FlagSuffix kFlagSuffixes[] = {{"dsb", double_buffer},
                                        {"2stage", two_stage},
                                        {"explicit_gemm", explicit_gemm},
                                        {"large_tensor", split_image},
                                        {"si", split_image}};
/// Suffixes with one number, omitted at the neutral value.
struct NumberSuffix {
  std::string_view word;
  CkConvAxis axis;
  std::int32_t neutral;
};
constexpr NumberSuffix kNumberSuffixes[] = {
    {"bpc", blocks_per_cu, 0}, {"wg", wave_groups, 1}, {"gm", merged_groups, 1}, {"splitk", split_k, 1}};

/// The element types of the three tensors; a signature stores them by operand.
struct ConvTypes {
  DType in, wei, out, acc;
};
ConvTypes types_of(const Signature& s) {
  switch (s.op) {
    case Op::conv_bwd_data:
      return {s.dtype_c, s.dtype_b, s.dtype_a, s.dtype_acc};
    case Op::conv_bwd_weight:
      return {s.dtype_b, s.dtype_c, s.dtype_a, s.dtype_acc};
    default:
      return {s.dtype_a, s.dtype_b, s.dtype_c, s.dtype_acc};
  }
}
Signature signature_from(Op op, Layout layout, const ConvTypes& types) {
  ConvProblem p = make_conv(op, types.in, layout);
  p.dtype_wei = types.wei;
  p.dtype_out = types.out;
  p.dtype_acc = types.acc;
  return signature_of(p);
}
ConvTypes usual_types(DType dtype) {
  const ConvProblem p = make_conv(Op::conv_fwd, dtype);
  return {p.dtype_in, p.dtype_wei, p.dtype_out, p.dtype_acc};
}

std::span<const std::string_view> conv_layouts() {
  return std::span(EnumWords<Layout>::words).subspan(kGemmLayouts);
}
Layout usual_layout(int rank) { return rank == 2 ? Layout::nhwgc : Layout::ndhwgc; }

Axes known_axes(const KernelConfig& config) {
  Axes known = 0;
  for (std::size_t i = 0; i < config.space->axes.size(); ++i) {
    if (config[i] != KernelConfig::unknown) known |= Axes{1} << i;
  }
  return known;
}

bool has_axis(Axes axes, CkConvAxis axis) { return axes >> static_cast<int>(axis) & 1u; }

// ---- printing

std::string dims_text(const KernelConfig& config, std::size_t group) {
  return fmt::format("_{}x{}x{}", value_of(config, kDims[group][0]), value_of(config, kDims[group][1]),
                     value_of(config, kDims[group][2]));
}
std::string word_text(const KernelConfig& config, CkConvAxis axis) {
  return axis_value_text(axis_of(axis), value_of(config, axis));
}
std::string_view direction_word(Op op) {
  return std::ranges::find(kDirectionNames, op, &DirectionWord::op)->word;
}

/// Suffix of an axis word: "_streamk_tree_persistent" for "tree_persistent". The axis word "atomic" has no
/// suffix of its own.
std::string stream_k_suffix(const KernelConfig& config) {
  std::string how = word_text(config, stream_k);
  if (how == "off") return {};
  if (how.starts_with("atomic")) how.erase(0, std::string_view("atomic").size());
  return (how.empty() || how[0] == '_' ? "_streamk" : "_streamk_") + how;
}

std::string suffixes(const KernelConfig& config, const ConvTypes& types) {
  std::string text;
  const auto number = [&](std::string_view word) {
    const auto& suffix = *std::ranges::find(kNumberSuffixes, word, &NumberSuffix::word);
    if (value_of(config, suffix.axis) != suffix.neutral)
      text += fmt::format("_{}{}", word, value_of(config, suffix.axis));
  };
  const auto flag = [&](std::string_view word) {
    if (value_of(config, std::ranges::find(kFlagSuffixes, word, &FlagSuffix::word)->axis) != 0)
      text += fmt::format("_{}", word);
  };
  const std::array widths = {value_of(config, vec_a), value_of(config, vec_b), value_of(config, vec_c)};
  if (widths != std::array{4, 8, 8}) text += fmt::format("_vec{}", fmt::join(widths, "_"));
  for (const std::string_view word : {"bpc", "wg", "gm"}) number(word);
  for (const std::string_view word : {"dsb", "2stage"}) flag(word);
  if (value_of(config, specialization) != 0) text += "_" + word_text(config, specialization);
  flag("explicit_gemm");
  text += stream_k_suffix(config);
  flag("large_tensor");
  const std::array pads = {value_of(config, pad_m), value_of(config, pad_n), value_of(config, pad_k)};
  if (pads != std::array{1, 1, 1}) text += fmt::format("_pad{}", fmt::join(pads, ""));
  number("splitk");
  const ConvTypes usual = usual_types(types.in);
  if (types.wei != usual.wei) text += fmt::format("_Wei{}", word(types.wei));
  if (types.out != usual.out) text += fmt::format("_Out{}", word(types.out));
  if (types.acc != usual.acc) text += fmt::format("_Acc{}", word(types.acc));
  return text;
}

[[noreturn]] void cannot_hold(std::string_view what) {
  fail(Errc::invalid_argument, "the name of a ck_tile convolution cannot hold {}", what);
}

/// Axes that may have the value 0.
constexpr Axes kMayBeZero =
    set_of({pad_m, pad_n, pad_k, vec_a, vec_b, vec_c, blocks_per_cu, double_buffer, two_stage, explicit_gemm,
            split_image, filter, stride_h, stride_w, images});
constexpr Axes kFlags = set_of({pad_m, pad_n, pad_k, double_buffer, two_stage, explicit_gemm, split_image});
constexpr Axes kDepthwiseAxes =
    set_of({tile_m, tile_n, warp_tile_m, warp_tile_n, vec_a, vec_c, filter, stride_h, stride_w, images});

void check_values(const KernelConfig& config) {
  for (std::size_t i = 0; i < config.space->axes.size(); ++i) {
    const Axis& axis = config.space->axes[i];
    const auto which = static_cast<CkConvAxis>(i);
    const std::int32_t least = has_axis(kMayBeZero, which) || !axis.words.empty() ? 0 : 1;
    const std::int32_t most = has_axis(kFlags, which) ? 1
                              : axis.words.empty()    ? INT32_MAX
                                                      : static_cast<std::int32_t>(axis.words.size()) - 1;
    if (config[i] != KernelConfig::unknown && (config[i] < least || config[i] > most))
      cannot_hold(fmt::format("{} = {}", axis.name, config[i]));
  }
}

/// (filter - 1) / 2 zeros on each side preserve the image's size.
std::int32_t depthwise_pad(const KernelConfig& config) { return (value_of(config, filter) - 1) / 2; }

std::string print_depthwise(const Signature& signature, const KernelConfig& config) {
  KernelConfig said = plain_ck_depthwise();
  for (std::size_t i = 0; i < config.space->axes.size(); ++i) {
    if (has_axis(kDepthwiseAxes, static_cast<CkConvAxis>(i))) said[i] = config[i];
  }
  if (said != config) cannot_hold("a depthwise kernel with axes of an implicit GEMM");
  const ConvTypes types = types_of(signature);
  if (spatial_rank(signature.layout) != 2 ||
      signature != signature_from(Op::conv_fwd, signature.layout, usual_types(types.in)))
    cannot_hold("a depthwise kernel that is not 2-D and of one type");
  const auto at = [&](CkConvAxis axis) { return value_of(config, axis); };
  for (const CkConvAxis axis : {filter, stride_h, stride_w, images, vec_a, vec_c}) {
    if (at(axis) < 1)
      cannot_hold(fmt::format("a depthwise kernel with {} = {}", axis_of(axis).name, at(axis)));
  }
  const std::int32_t pad = depthwise_pad(config);
  return fmt::format("grouped_conv_fwd_depthwise_{}_{}_2d_{}x{}_f{}_s{}x{}_p{}x{}_nb{}_sub{}x{}_vec{}_{}",
                     word(types.in), word(signature.layout), at(tile_m), at(tile_n), at(filter), at(stride_h),
                     at(stride_w), pad, pad, at(images), at(warp_tile_m), at(warp_tile_n), at(vec_a),
                     at(vec_c));
}

std::string print_short(const Signature& signature, const KernelConfig& config, Axes known) {
  const ConvTypes types = types_of(signature);
  const int rank = spatial_rank(signature.layout);
  const bool forward = signature.op == Op::conv_fwd;
  std::string text =
      fmt::format("grouped_conv_{}_{}", forward ? "forward" : direction_word(signature.op), word(types.in));
  if (signature.layout != usual_layout(rank)) text += fmt::format("_{}", word(signature.layout));
  text += fmt::format("_{}d{}_{}", rank, dims_text(config, 0), word_text(config, pipeline));
  if (known == kOlderAxes) return text;
  text += "_" + word_text(config, scheduler);
  if (value_of(config, merged_groups) != 1) text += fmt::format("_gm{}", value_of(config, merged_groups));
  if (value_of(config, double_buffer)) text += "_dsb";
  if (value_of(config, split_image)) text += "_si";
  if (value_of(config, two_stage)) text += "_2stage";
  return text;
}

std::string print_key(const Signature& signature, const KernelConfig& config) {
  const int rank = spatial_rank(signature.layout);
  std::string text =
      fmt::format("grouped_conv_{}_{}", direction_word(signature.op), word(types_of(signature).in));
  if (signature.layout != usual_layout(rank)) text += fmt::format("_{}", word(signature.layout));
  text += fmt::format("_{}d", rank);
  for (std::size_t group = 0; group < 3; ++group) text += dims_text(config, group);
  text += "_" + word_text(config, pipeline);
  if (value_of(config, specialization) != 0) text += "_" + word_text(config, specialization);
  return text;
}

// ---- parsing

/// The first part of a name.
struct Head {
  Op op = Op::conv_fwd;
  ConvTypes types{};
  Layout layout = Layout::nhwgc;
};

/// `[layout "_"] rank "d"`: the layout must have that many axes.
Layout read_layout(NameReader& reader) {
  const auto layout = reader.try_word(conv_layouts());
  const int rank = static_cast<int>(reader.part_word("number of spatial axes", kRanks)) + 2;
  if (!layout) return usual_layout(rank);
  const auto chosen = static_cast<Layout>(*layout + kGemmLayouts);
  if (spatial_rank(chosen) != rank) {
    reader.refuse(fmt::format("{}d", rank), fmt::format("does not fit layout {}", word(chosen)));
  }
  return chosen;
}

void read_dims(NameReader& reader, KernelConfig& config, std::size_t group) {
  const auto numbers = reader.dims(kDimNames[group], 3);
  for (std::size_t i = 0; i < 3; ++i) value_of(config, kDims[group][i]) = numbers[i];
}

bool dims_next(const NameReader& reader) {
  const std::string_view next = reader.next();
  return !next.empty() && next[0] >= '0' && next[0] <= '9' && next.find('x') != std::string_view::npos;
}

/// Reads a word of the axis if the next part is one.
bool try_axis_word(NameReader& reader, KernelConfig& config, CkConvAxis axis) {
  const auto found = reader.try_word(axis_of(axis).words);
  if (found) value_of(config, axis) = static_cast<std::int32_t>(*found);
  return found.has_value();
}

bool try_scheduler(NameReader& reader, KernelConfig& config) {
  if (try_axis_word(reader, config, scheduler)) return true;
  if (!reader.try_word(std::span(&ck_tile::kAutoAlias, 1))) return false;
  set_word(config, scheduler, "auto");
  return true;
}

bool try_type(std::string_view part, Head& head) {
  const auto read = [&](std::string_view prefix, DType& dtype) {
    if (!part.starts_with(prefix)) return false;
    const auto position = find_word(part.substr(prefix.size()), EnumWords<DType>::words);
    if (position) dtype = static_cast<DType>(*position);
    return position.has_value();
  };
  return read("Wei", head.types.wei) || read("Out", head.types.out) || read("Acc", head.types.acc);
}

void read_stream_k(NameReader& reader, KernelConfig& config) {
  static constexpr std::string_view kHow[] = {"linear", "tree"};
  static constexpr std::string_view kPersistent[] = {"persistent"};
  const auto how = reader.try_word(kHow);
  std::string word(how ? kHow[*how] : "atomic");
  if (reader.try_word(kPersistent)) word += "_persistent";
  set_word(config, stream_k, word);
}

void read_pads(NameReader& reader, KernelConfig& config, std::string_view part) {
  const std::string_view digits = part.substr(3);
  if (digits.size() != 3 || digits.find_first_not_of("01") != std::string_view::npos)
    reader.refuse(part, "is not pad and three digits 0 or 1");
  for (std::size_t i = 0; i < 3; ++i) {
    value_of(config, std::array{pad_m, pad_n, pad_k}[i]) = digits[i] - '0';
  }
}

void read_suffix(NameReader& reader, KernelConfig& config, Head& head) {
  std::array<std::string_view, std::size(kFlagSuffixes)> flags;
  std::ranges::transform(kFlagSuffixes, flags.begin(), &FlagSuffix::word);
  if (const auto flag = reader.try_word(flags)) {
    value_of(config, kFlagSuffixes[*flag].axis) = 1;
    return;
  }
  if (try_axis_word(reader, config, specialization)) return;
  const std::string_view part = reader.part("suffix");
  if (part == "streamk") return read_stream_k(reader, config);
  if (part.starts_with("vec")) {
    value_of(config, vec_a) = reader.number_of(part.substr(3), "vec_a", 0);
    value_of(config, vec_b) = reader.number_of(reader.part("vec_b"), "vec_b", 0);
    value_of(config, vec_c) = reader.number_of(reader.part("vec_c"), "vec_c", 0);
    return;
  }
  if (part.starts_with("pad")) return read_pads(reader, config, part);
  for (const NumberSuffix& suffix : kNumberSuffixes) {
    if (!part.starts_with(suffix.word)) continue;
    value_of(config, suffix.axis) =
        reader.number_of(part.substr(suffix.word.size()), axis_of(suffix.axis).name, 1);
    return;
  }
  if (try_type(part, head)) return;
  reader.refuse(part,
                "is no suffix (vecA_B_C, bpcN, wgN, gmN, dsb, 2stage, filter1x1_pad0, explicit_gemm, "
                "streamk, large_tensor, padMNK, splitkN, ...)");
}

KernelConfig only(const KernelConfig& config, Axes axes) {
  KernelConfig kept(*config.space);
  for (std::size_t i = 0; i < config.space->axes.size(); ++i) {
    if (has_axis(axes, static_cast<CkConvAxis>(i))) kept[i] = config[i];
  }
  return kept;
}

/// Reads a name with the tile before the pipeline: `shorter`, `older` or `key`.
CkSpelling read_tile_first(NameReader& reader, KernelConfig& config, Head& head) {
  read_dims(reader, config, 0);
  if (dims_next(reader)) {
    read_dims(reader, config, 1);
    read_dims(reader, config, 2);
    value_of(config, pipeline) =
        static_cast<std::int32_t>(reader.part_word("pipeline", axis_of(pipeline).words));
    if (!reader.done())
      value_of(config, specialization) =
          static_cast<std::int32_t>(reader.part_word("specialization", axis_of(specialization).words));
    if (!reader.done()) reader.refuse(reader.next(), "stands behind the end of a kernel key");
    config = only(config, kKeyAxes);
    return CkSpelling::key;
  }
  value_of(config, pipeline) =
      static_cast<std::int32_t>(reader.part_word("pipeline", axis_of(pipeline).words));
  if (reader.done()) {  // nothing after the pipeline: the axes that would follow are unknown
    config = only(config, kOlderAxes);
    return CkSpelling::older;
  }
  try_scheduler(reader, config);
  const KernelConfig before = config;
  while (!reader.done()) {
    const std::string_view suffix = reader.next();
    read_suffix(reader, config, head);
    if (only(config, ~kShortAxes) != only(before, ~kShortAxes))
      reader.refuse(suffix, "is a suffix of full names only");
  }
  config = only(config, kShortAxes);
  return CkSpelling::shorter;
}

/// Reads a name with the pipeline before the tile: `full` or `profiler`.
CkSpelling read_pipeline_first(NameReader& reader, KernelConfig& config, Head& head) {
  value_of(config, pipeline) =
      static_cast<std::int32_t>(reader.part_word("pipeline", axis_of(pipeline).words));
  const bool told = try_axis_word(reader, config, epilogue);
  const bool scheduled = try_scheduler(reader, config);
  read_dims(reader, config, 0);
  const bool full = told && scheduled && dims_next(reader);
  if (full) {
    read_dims(reader, config, 1);
    read_dims(reader, config, 2);
  }
  while (!reader.done()) read_suffix(reader, config, head);
  if (full) return CkSpelling::full;
  config = only(config, kShortAxes);
  return CkSpelling::profiler;
}

NamedConfig read_depthwise(NameReader& reader) {
  const auto dtype = static_cast<DType>(reader.part_word("dtype", EnumWords<DType>::words));
  const Layout layout = read_layout(reader);
  if (spatial_rank(layout) != 2)
    reader.refuse(word(layout), "is no layout of a depthwise kernel, which are 2-D");
  KernelConfig config = plain_ck_depthwise();
  const auto pair = [&](std::string_view prefix, std::string_view what, CkConvAxis first, CkConvAxis second) {
    if (!reader.optional(prefix)) reader.refuse(reader.next(), fmt::format("is not the {}", what));
    const auto numbers = reader.dims(what, 2);
    value_of(config, first) = numbers[0];
    value_of(config, second) = numbers[1];
  };
  pair("", "tile", tile_m, tile_n);
  value_of(config, filter) = reader.number_after("f", "filter", 1);
  pair("s", "stride", stride_h, stride_w);
  const std::string_view pads = reader.part("padding");
  const std::int32_t pad = depthwise_pad(config);
  if (pads != fmt::format("p{}x{}", pad, pad))
    reader.refuse(pads, fmt::format("is not the padding p{}x{} of its filter", pad, pad));
  value_of(config, images) = reader.number_after("nb", "images", 1);
  pair("sub", "tile of one lane", warp_tile_m, warp_tile_n);
  value_of(config, vec_a) = reader.number_after("vec", "vec_a", 1);
  value_of(config, vec_c) = reader.number_of(reader.part("vec_c"), "vec_c", 1);
  if (!reader.done()) reader.refuse(reader.next(), "stands behind the end of a depthwise name");
  return {signature_from(Op::conv_fwd, layout, usual_types(dtype)), config};
}

}  // namespace

bool is_ck_tile_conv_name(std::string_view name) noexcept {
  if (name.starts_with("benchmark_")) name.remove_prefix(10);
  return name.starts_with("grouped_conv_");
}

std::string print_ck_tile_conv(const Signature& signature, const KernelConfig& config) {
  if (!is_direction(signature.op) || config.space != &ck_tile_conv_space(signature.op) ||
      is_gemm_layout(signature.layout) || signature.epilogue != Epilogue::none || signature.accumulate) {
    cannot_hold("this signature and config (a direction, one of its layouts, no fused operation)");
  }
  check_values(config);
  const Axes known = known_axes(config);
  const ConvTypes types = types_of(signature);
  if (known == kAllAxes) {
    if (has_word(config, pipeline, "depthwise")) return print_depthwise(signature, config);
    for (const CkConvAxis axis : {filter, stride_h, stride_w, images}) {
      if (value_of(config, axis) != 0)
        cannot_hold(fmt::format("{} without pipeline depthwise", axis_of(axis).name));
    }
    std::string text = fmt::format("grouped_conv_{}_{}_{}_{}d", direction_word(signature.op), word(types.in),
                                   word(signature.layout), spatial_rank(signature.layout));
    for (const CkConvAxis axis : {pipeline, epilogue, scheduler}) text += "_" + word_text(config, axis);
    for (std::size_t group = 0; group < 3; ++group) text += dims_text(config, group);
    return text + suffixes(config, types);
  }
  const ConvTypes usual = usual_types(types.in);
  if (types.wei != usual.wei || types.out != usual.out || types.acc != usual.acc ||
      has_word(config, pipeline, "depthwise"))
    cannot_hold("unknown axes beside mixed types or pipeline depthwise");
  if (known == kShortAxes || known == kOlderAxes) return print_short(signature, config, known);
  if (known == kKeyAxes) return print_key(signature, config);
  cannot_hold("a config with more axes than the short form and fewer than the full one");
}

NamedConfig parse_ck_tile_conv(std::string_view name, CkSpelling* spelling) {
  NameReader reader("ck_tile", name);
  reader.optional("benchmark_");
  if (!reader.optional("grouped_conv_")) reader.refuse(reader.next(), "is not grouped_conv_");
  CkSpelling ignored;
  CkSpelling& written = spelling ? *spelling : ignored;
  written = CkSpelling::full;
  if (reader.optional("fwd_depthwise_")) return read_depthwise(reader);
  std::array<std::string_view, std::size(kDirectionNames)> directions;
  std::ranges::transform(kDirectionNames, directions.begin(), &DirectionWord::word);
  Head head;
  head.op = kDirectionNames[reader.part_word("direction", directions)].op;
  head.types = usual_types(static_cast<DType>(reader.part_word("dtype", EnumWords<DType>::words)));
  head.layout = read_layout(reader);
  KernelConfig config = plain_ck_conv(head.op);
  written =
      dims_next(reader) ? read_tile_first(reader, config, head) : read_pipeline_first(reader, config, head);
  const ConvTypes usual = usual_types(head.types.in);
  const bool mixed =
      head.types.wei != usual.wei || head.types.out != usual.out || head.types.acc != usual.acc;
  if (written != CkSpelling::full && mixed)
    reader.refuse(name, "names mixed types, which only full names can");
  if (has_word(config, pipeline, "depthwise")) reader.refuse("depthwise", "has names of its own form");
  return {signature_from(head.op, head.layout, head.types), config};
}

CkTableTile read_ck_table_tile(const KernelConfig& named, std::int32_t block_size,
                               std::int32_t gemm_m_per_block, std::int32_t gemm_n_per_block) {
  const std::int32_t m = value_of(named, tile_m), n = value_of(named, tile_n), k = value_of(named, tile_k);
  const bool shifted = block_size == m && gemm_m_per_block == n && gemm_n_per_block == k;
  if (!shifted && (gemm_m_per_block != m || gemm_n_per_block != n)) {
    fail(Errc::corrupt_data,
         "block_size={}, gemm_m_per_block={}, gemm_n_per_block={} are neither the tile {}x{}x{} of the "
         "kernel's "
         "name nor its m and n",
         block_size, gemm_m_per_block, gemm_n_per_block, m, n, k);
  }
  return {m, n, k, shifted};
}

}  // namespace kscout
