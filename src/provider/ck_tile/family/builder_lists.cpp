#include <algorithm>
#include <array>
#include <unordered_set>

#include <kscout/conv_problem.h>

#include "core/fail.h"
#include "core/files.h"
#include "core/names.h"
#include "core/numbers.h"
#include "core/problem_text.h"
#include "provider/ck_tile/ck_tile.h"
#include "provider/ck_tile/family/ck_builder.h"

namespace kscout {
namespace {

using enum CkConvAxis;
namespace fs = std::filesystem;

constexpr std::int32_t kLanes = 64;

/// The reason why a line has no config; thrown to end the line's translation, caught in read_builder_line.
struct Skip {
  std::string because;
};
[[noreturn]] void skip(std::string because) { throw Skip{std::move(because)}; }

// ---- text

struct Operation {
  std::string_view name;
  std::vector<std::string_view> arguments;  ///< between the outer < and >; nested lists stay whole
};

Operation read_operation(std::string_view line) {
  const std::size_t open = line.find('<');
  if (open == std::string_view::npos || line.back() != '>') skip("is no operation with template arguments");
  Operation operation{line.substr(0, open), {}};
  const std::string_view inside = line.substr(open + 1, line.size() - open - 2);
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= inside.size(); ++i) {
    const char c = i < inside.size() ? inside[i] : ',';
    depth += (c == '(' || c == '<') - (c == ')' || c == '>');
    if (c != ',' || depth != 0) continue;
    operation.arguments.push_back(inside.substr(begin, i - begin));
    begin = i + 1;
  }
  return operation;
}

std::string_view argument(const Operation& operation, int at) {
  if (at < 0 || static_cast<std::size_t>(at) >= operation.arguments.size())
    skip("has too few template arguments");
  return operation.arguments[static_cast<std::size_t>(at)];
}
std::int32_t number(std::string_view text) {
  const auto value = number_in<std::int32_t>(text);
  if (!value) skip(fmt::format("'{}' is no number", text));
  return *value;
}
std::int32_t number(const Operation& operation, int at) { return number(argument(operation, at)); }

// ---- common target of all operations

/// The numbers of a device operation, by CK Builder's names.
struct Builder {
  std::int32_t block = 0, m = 0, n = 0, k = 0, k1 = 0;
  std::int32_t xdl_m = 0, xdl_n = 0, xdl_per_wave_m = 0, xdl_per_wave_n = 0;
  std::int32_t width_a = 1, width_b = 1, width_c = 1;
};

std::int32_t whole(std::int32_t a, std::int32_t b, std::string_view what) {
  if (b <= 0 || a % b != 0 || a / b < 1) skip(fmt::format("{}: {} is no whole multiple of {}", what, a, b));
  return a / b;
}

bool is_half(const Signature& s) { return s.dtype_a != DType::fp32; }

/// Derives the waves from the block, and K of the warp tile as in the curated sets.
void put_shape(KernelConfig& config, const Builder& from, const Signature& s) {
  const std::int32_t waves_m = whole(from.m, from.xdl_m * from.xdl_per_wave_m, "waves along M");
  const std::int32_t waves_n = whole(from.n, from.xdl_n * from.xdl_per_wave_n, "waves along N");
  const std::int32_t waves_k = whole(from.block, kLanes * waves_m * waves_n, "waves along K");
  const std::int32_t least = is_half(s) ? (from.xdl_m == 32 ? 16 : 32) : (from.xdl_m == 32 ? 2 : 4);
  const std::pair<CkConvAxis, std::int32_t> values[] = {
      {tile_m, from.m},
      {tile_n, from.n},
      {tile_k, from.k},
      {warp_m, waves_m},
      {warp_n, waves_n},
      {warp_k, waves_k},
      {warp_tile_m, from.xdl_m},
      {warp_tile_n, from.xdl_n},
      {warp_tile_k, std::min(std::max(from.k1, least), from.k)},
      {vec_a, from.width_a},
      {vec_b, from.width_b},
      {vec_c, from.width_c}};
  for (const auto& [axis, value] : values) value_of(config, axis) = value;
}

/// Reads "v1" to "v5"; `direct`: A and B are loaded straight into LDS.
void put_pipeline(KernelConfig& config, std::string_view version, bool direct) {
  struct Version {
    std::string_view word, pipeline, direct;
  };
  static constexpr Version kVersions[] = {{"v1", "compv1", "basic_async_v1"},
                                          {"v2", "mem", ""},
                                          {"v3", "compv3", ""},
                                          {"v4", "compv4", "mem"},
                                          {"v5", "compv6", ""}};
  const auto found = std::ranges::find(kVersions, version, &Version::word);
  if (found == std::end(kVersions) || (direct && found->direct.empty()))
    skip(fmt::format("pipeline version '{}'{} has no counterpart", version,
                     direct ? " with direct loads" : ""));
  set_word(config, pipeline, direct ? found->direct : found->pipeline);
  value_of(config, double_buffer) = has_word(config, pipeline, "compv4");
}

void put_scheduler(KernelConfig& config, std::string_view word) {
  set_word(config, scheduler, word == "Interwave" ? "interwave" : "intrawave");
}

void put_specialization(KernelConfig& config, std::string_view word) {
  static constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"Default", "default"},
      {"OddC", "default"},
      {"Filter1x1Pad0", "filter1x1_pad0"},
      {"Filter1x1Stride1Pad0", "filter1x1_stride1_pad0"},
      {"Filter3x3", "filter3x3"}};
  for (const auto& [theirs, ours] : kWords) {
    if (theirs == word) return set_word(config, specialization, ours);
  }
  skip(fmt::format("specialisation '{}' has no counterpart", word));
}

/// Refuses widths that the classic library has and CK Tile lacks.
void check_widths(const KernelConfig& config, const Signature& s) {
  for (const CkConvAxis axis : {vec_a, vec_b, vec_c}) {
    const std::int32_t width = value_of(config, axis);
    if (width > 1 && width % 2 != 0)
      skip(fmt::format("{} = {}: odd widths above 1 have no counterpart", axis_of(axis).name, width));
  }
  const std::int32_t along_a = value_of(config, s.op == Op::conv_bwd_data ? tile_k : tile_m);
  if (along_a > kLanes * value_of(config, vec_a) ||
      value_of(config, tile_n) > kLanes * value_of(config, vec_b))
    skip("a wave of lanes does not cover the tile with these widths (V12)");
}

// ---- the operations

/// Positions of an operation's arguments, mostly as distances from the block size.
struct Places {
  std::string_view name;
  Op op;
  int specialization, block;
  bool k_in_parts;                ///< K is given as a number of k1's
  int width_a, width_b, width_c;  ///< distances from the block size, as the following members
  int scheduler, version;         ///< 0: intrawave, v1
  int direct, groups;             ///< 0: none
};
constexpr Places kOperations[] = {
    {"DeviceGroupedConvFwdMultipleABD_Xdl_CShuffle", Op::conv_fwd, 14, 17, false, 14, 21, 27, 0, 0, 0, 31},
    {"DeviceGroupedConvFwdMultipleD_Xdl_CShuffle_Large_Tensor", Op::conv_fwd, 14, 17, false, 14, 21, 27, 0, 0,
     0, 0},
    {"DeviceGroupedConvFwdMultipleABD_Xdl_CShuffle_V3", Op::conv_fwd, 14, 16, false, 14, 21, 27, 28, 29, 32,
     33},
    {"DeviceGroupedConvBwdDataMultipleD_Xdl_CShuffle", Op::conv_bwd_data, 13, 17, false, 14, 21, 27, 0, 0, 0,
     0},
    {"DeviceGroupedConvBwdWeight_Xdl_CShuffle", Op::conv_bwd_weight, 11, 12, true, 13, 20, 26, 0, 0, 0, 0},
    {"DeviceGroupedConvBwdWeight_Xdl_CShuffleV3", Op::conv_bwd_weight, 11, 12, false, 13, 20, 26, 27, 28, 0,
     0},
    {"DeviceGroupedConvBwdWeightTwoStage_Xdl_CShuffle", Op::conv_bwd_weight, 11, 12, false, 13, 20, 26, 27,
     28, 0, 29},
};

/// Forward and backward data give two k1 (of A and B) after K, backward weight gives one, which shifts the
/// positions that follow.
KernelConfig read_instance(const Operation& operation, const Places& at, const Signature& s) {
  KernelConfig config = plain_ck_conv(at.op);
  const int block = at.block, matrix = at.op == Op::conv_bwd_weight ? block + 5 : block + 6;
  Builder from;
  from.block = number(operation, block);
  from.m = number(operation, block + 1);
  from.n = number(operation, block + 2);
  from.k1 = number(operation, block + 4);
  from.k = number(operation, block + 3) * (at.k_in_parts ? from.k1 : 1);
  from.xdl_m = number(operation, matrix);
  from.xdl_n = number(operation, matrix + 1);
  from.xdl_per_wave_m = number(operation, matrix + 2);
  from.xdl_per_wave_n = number(operation, matrix + 3);
  from.width_a = number(operation, block + at.width_a);
  from.width_b = number(operation, block + at.width_b);
  from.width_c = number(operation, block + at.width_c);
  put_shape(config, from, s);
  put_scheduler(config, at.scheduler ? argument(operation, block + at.scheduler) : "Intrawave");
  put_pipeline(config, at.version ? argument(operation, block + at.version) : "v1",
               at.direct && argument(operation, block + at.direct) == "true");
  put_specialization(config, argument(operation, at.specialization));
  if (at.groups) value_of(config, merged_groups) = number(operation, block + at.groups);
  value_of(config, split_image) = at.name.find("Large_Tensor") != std::string_view::npos;
  value_of(config, two_stage) = at.name.find("TwoStage") != std::string_view::npos;
  return config;
}

/// The number or numbers after "Name: " in the description of an explicit GEMM.
std::vector<std::int32_t> described(std::string_view text, std::string_view name) {
  const std::size_t at = text.find(fmt::format("{}: ", name));
  if (at == std::string_view::npos) skip(fmt::format("does not say its {}", name));
  std::string_view value = text.substr(at + name.size() + 2);
  value = value.substr(0, value.find(", "));
  std::vector<std::int32_t> numbers;
  for (std::string_view part : split(value, 'x')) {
    if (part.starts_with("Seq(")) part = part.substr(4, part.find(')') - 4);
    numbers.push_back(number(part.substr(0, part.find_first_of(",>"))));
  }
  return numbers;
}

KernelConfig read_explicit(std::string_view line, const Signature& s) {
  KernelConfig config = plain_ck_conv(Op::conv_bwd_weight);
  const auto tile = described(line, "BlkTile"), xdl = described(line, "WaveTile"), k1 = described(line, "K1"),
             map = described(line, "WaveMap"), widths = described(line, "VmemReadVec");
  if (tile.size() != 3 || xdl.size() != 2 || k1.empty() || map.size() != 2 || widths.size() != 3)
    skip("describes its tile, waves or widths in another way");
  put_shape(config,
            {described(line, "BlkSize")[0], tile[0], tile[1], tile[2], k1[0], xdl[0], xdl[1], map[0], map[1],
             widths[0], widths[1], widths[2]},
            s);
  put_scheduler(config,
                line.find("Scheduler: Interwave") != std::string_view::npos ? "Interwave" : "Intrawave");
  const std::size_t version = line.find("Version: v");
  put_pipeline(config, version == std::string_view::npos ? "" : line.substr(version + 9, 2), false);
  value_of(config, explicit_gemm) = 1;
  set_word(config, specialization, "filter1x1_stride1_pad0");
  value_of(config, two_stage) = is_half(s) && widths[2] % 2 != 0;
  return config;
}

/// Reads a kernel of CK Tile itself, which states every field.
KernelConfig read_native(const Operation& operation, const Signature& s) {
  static constexpr std::pair<std::string_view, std::string_view> kPipelines[] = {
      {"BASIC_V1", "compv1"},
      {"MEMORY", "mem"},
      {"COMPUTE_V3", "compv3"},
      {"COMPUTE_V4", "compv4"},
      {"COMPUTE_V5", "compv5"},
      {"COMPUTE_V6", "compv6"},
      {"BASIC_ASYNC_V1", "basic_async_v1"},
      {"WAVELET", "wavelet"},
      {"COMPUTE_ASYNC", "comp_async"}};
  static constexpr std::pair<CkConvAxis, int> kNumbers[] = {
      {vec_a, 6},          {vec_b, 7},       {vec_c, 8},        {merged_groups, 9}, {split_image, 10},
      {explicit_gemm, 11}, {tile_m, 12},     {tile_n, 13},      {tile_k, 14},       {warp_m, 15},
      {warp_n, 16},        {warp_k, 17},     {warp_tile_m, 18}, {warp_tile_n, 19},  {warp_tile_k, 20},
      {double_buffer, 25}, {wave_groups, 26}};
  KernelConfig config = plain_ck_conv(s.op);
  for (const auto& [axis, place] : kNumbers) value_of(config, axis) = number(operation, place);
  put_specialization(config, argument(operation, 1));
  const auto found =
      std::ranges::find_if(kPipelines, [&](const auto& one) { return one.first == argument(operation, 23); });
  if (found == std::end(kPipelines))
    skip(fmt::format("pipeline '{}' has no counterpart", argument(operation, 23)));
  set_word(config, pipeline, found->second);
  put_scheduler(config, argument(operation, 24));
  if (operation.arguments.size() > 31 && number(operation, 31) != 0) {
    static constexpr std::string_view kHow[] = {"atomic", "linear", "tree"};
    const std::int32_t how = number(operation, 32);
    if (how < 0 || how > 2) skip(fmt::format("stream-K reduction {} has no counterpart", how));
    set_word(config, stream_k, std::string(kHow[how]) + (number(operation, 33) != 0 ? "_persistent" : ""));
    if (!is_half(s) && has_word(config, pipeline, "basic_async_v1"))
      skip("fp32 has no stream-K with asynchronous loads");
  }
  return config;
}

KernelConfig read_depthwise(const Operation& operation) {
  static constexpr std::pair<CkConvAxis, int> kNumbers[] = {
      {tile_m, 0}, {tile_n, 1},      {filter, 2},      {stride_h, 3}, {stride_w, 4},
      {images, 7}, {warp_tile_m, 8}, {warp_tile_n, 9}, {vec_a, 10},   {vec_c, 11}};
  KernelConfig config = plain_ck_depthwise();
  for (const auto& [axis, place] : kNumbers) value_of(config, axis) = number(operation, place);
  const std::int32_t pad = (value_of(config, filter) - 1) / 2;
  if (number(operation, 5) != pad || number(operation, 6) != pad)
    skip("pads otherwise than to keep the image's size");
  return config;
}

KernelConfig translated(std::string_view line, const Signature& s) {
  if (line.starts_with("DeviceGroupedConvBwdWeight_Explicit_Xdl<")) {
    if (s.op != Op::conv_bwd_weight) skip("has another direction than its folder");
    KernelConfig config = read_explicit(line, s);
    check_widths(config, s);
    return config;
  }
  const Operation operation = read_operation(line);
  if (operation.name == "GroupedConvolutionForwardDepthwise") return read_depthwise(operation);
  if (operation.name.starts_with("GroupedConvolution") && operation.name.ends_with("Kernel"))
    return read_native(operation, s);
  const auto at = std::ranges::find(kOperations, operation.name, &Places::name);
  if (at == std::end(kOperations)) skip(fmt::format("operation '{}' is not known", operation.name));
  if (at->op != s.op) skip("has another direction than its folder");
  KernelConfig config = read_instance(operation, *at, s);
  check_widths(config, s);
  return config;
}

/// The signatures of a file name: LAYOUT_DTYPE[_streamk], or LAYOUT_depthwise for every type.
std::vector<Signature> signatures_of(Op op, const std::string& stem) {
  const auto parts = split(stem, '_');
  const auto layout = find_word(parts[0], EnumWords<Layout>::words);
  if (!layout || parts.size() < 2 || is_gemm_layout(static_cast<Layout>(*layout))) return {};
  std::vector<DType> types;
  if (parts[1] == "depthwise") types = {DType::fp16, DType::bf16, DType::fp32};
  if (const auto dtype = find_word(parts[1], EnumWords<DType>::words)) types = {static_cast<DType>(*dtype)};
  std::vector<Signature> signatures;
  for (const DType dtype : types)
    signatures.push_back(signature_of(make_conv(op, dtype, static_cast<Layout>(*layout))));
  return signatures;
}

/// The table of a signature; created at its first use.
ConfigTable& table_of(BuilderLists& lists, const Signature& signature) {
  auto found = std::ranges::find(lists.signatures, signature, &SignatureConfigs::signature);
  if (found == lists.signatures.end()) {
    lists.signatures.push_back({signature, ConfigTable(ck_tile_conv_space(signature.op))});
    found = std::prev(lists.signatures.end());
  }
  return found->configs;
}

}  // namespace

std::optional<KernelConfig> read_builder_line(std::string_view line, const Signature& signature,
                                              std::string& because) {
  try {
    return translated(line, signature);
  } catch (const Skip& skipped) {
    because = skipped.because;
    return std::nullopt;
  }
}

BuilderLists read_builder_lists(const fs::path& folder, std::string_view list) {
  constexpr std::pair<std::string_view, Op> kFolders[] = {{"forward", Op::conv_fwd},
                                                          {"backward_data", Op::conv_bwd_data},
                                                          {"backward_weight", Op::conv_bwd_weight}};
  BuilderLists lists;
  std::unordered_set<std::string> seen;
  std::size_t files = 0;
  for (const auto& [name, op] : kFolders) {
    std::vector<fs::path> paths;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder / name / list, ignored)) {
      if (entry.path().extension() == ".conf") paths.push_back(entry.path());
    }
    std::ranges::sort(paths);
    files += paths.size();
    for (const fs::path& path : paths) {
      const std::string text = read_plain_text(path);
      std::size_t number_of_line = 0;
      for (std::string_view line : split(text, '\n')) {
        ++number_of_line;
        while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
        if (line.empty() || line[0] == '#' || line[0] == ';') continue;
        const auto signatures = signatures_of(op, path.stem().string());
        std::string because = signatures.empty() ? "the file's name does not state layout and type" : "";
        for (const Signature& signature : signatures) {
          const auto config = read_builder_line(line, signature, because);
          if (config && seen.insert(config_name(signature, *config)).second)
            table_of(lists, signature).push_back(*config);
        }
        if (!because.empty())
          lists.skipped.push_back({fmt::format("{}:{}", path.string(), number_of_line), because});
      }
    }
  }
  if (files == 0)
    fail(Errc::not_found, "{}: there is no list '{}' (forward/{}/*.conf and so on)", folder.string(), list,
         list);
  return lists;
}

}  // namespace kscout
