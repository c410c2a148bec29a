/// \file
/// Prints and parses kernel names of CK Tile GEMMs; ck_tile.h contains the grammar.
#include <algorithm>
#include <array>

#include "provider/ck_tile/ck_tile.h"
#include "provider/name_reader.h"

namespace kscout {
namespace {

using enum CkGemmAxis;

constexpr CkGemmAxis kFlags[] = {pad_m, pad_n, pad_k, persistent};
constexpr CkGemmAxis kDims[3][3] = {
    {tile_m, tile_n, tile_k}, {warp_m, warp_n, warp_k}, {warp_tile_m, warp_tile_n, warp_tile_k}};
constexpr std::string_view kDimNames[] = {"tile", "waves", "warp tile"};

struct EpilogueSuffix {
  Epilogue epilogue;
  std::string_view word;
};
constexpr EpilogueSuffix kEpilogueSuffixes[] = {
    {Epilogue::relu, "Relu"},          {Epilogue::gelu, "Gelu"},          {Epilogue::bias, "Bias"},
    {Epilogue::bias_relu, "BiasRelu"}, {Epilogue::bias_gelu, "BiasGelu"},
};
/// Features that CK's names may state and a signature cannot represent.
constexpr std::string_view kForeignSuffixes[] = {"Add",       "Multiply", "MultiDAdd", "MultiDMultiply",
                                                 "Clamp",     "Sigmoid",  "Tanh",      "Swish",
                                                 "HardSwish", "sparse",   "multid"};

const Axis& axis_of(CkGemmAxis axis) { return ck_tile_gemm_space.axes[static_cast<std::size_t>(axis)]; }

std::int32_t& value_of(KernelConfig& config, CkGemmAxis axis) {
  return config[static_cast<std::size_t>(axis)];
}
std::int32_t value_of(const KernelConfig& config, CkGemmAxis axis) {
  return config[static_cast<std::size_t>(axis)];
}

/// The types that CK pairs with A's type.
Signature usual_signature(DType dtype, Layout layout) {
  return signature_of(make_gemm(0, 0, 0, dtype, layout));
}

void read_dims(NameReader& reader, KernelConfig& config, std::size_t group) {
  const auto numbers = reader.dims(kDimNames[group], 3);
  for (std::size_t i = 0; i < 3; ++i) value_of(config, kDims[group][i]) = numbers[i];
}

bool read_signature_suffix(std::string_view word, Signature& signature) {
  for (const auto& suffix : kEpilogueSuffixes) {
    if (suffix.word == word) {
      signature.epilogue = suffix.epilogue;
      return true;
    }
  }
  if (word == "beta") {
    signature.accumulate = true;
    return true;
  }
  const auto dtype_after = [&](std::string_view prefix, DType& dtype) {
    if (!word.starts_with(prefix)) return false;
    const auto position = find_word(word.substr(prefix.size()), EnumWords<DType>::words);
    if (position) dtype = static_cast<DType>(*position);
    return position.has_value();
  };
  return dtype_after("B", signature.dtype_b) || dtype_after("C", signature.dtype_c) ||
         dtype_after("Acc", signature.dtype_acc);
}

void read_suffix(NameReader& reader, NamedConfig& named) {
  const std::string_view word = reader.part("suffix");
  KernelConfig& config = named.config;
  if (word.starts_with("vec")) {
    value_of(config, vec_a) = reader.number_of(word.substr(3), "vec_a", 0);
    value_of(config, vec_b) = reader.number_of(reader.part("vec_b"), "vec_b", 0);
    value_of(config, vec_c) = reader.number_of(reader.part("vec_c"), "vec_c", 0);
  } else if (word.starts_with("splitk")) {
    value_of(config, split_k) = reader.number_of(word.substr(6), "split_k", 1);
  } else if (word == "preshuffle") {
    value_of(config, preshuffle) = 1;
  } else if (word == "streamk") {
    value_of(config, stream_k) = parse_axis_value(axis_of(stream_k), "atomic");
  } else if ((word == "linear" || word == "tree") && value_of(config, stream_k) != 0) {
    value_of(config, stream_k) = parse_axis_value(axis_of(stream_k), word);
  } else if (word != "PassThrough" && !read_signature_suffix(word, named.signature)) {
    const bool extra_tensors =
        word.size() > 1 && word[0] == 'd' && word.find_first_not_of("0123456789", 1) == word.npos;
    if (extra_tensors || find_word(word, kForeignSuffixes)) {
      reader.refuse(
          word, "says something that a GEMM signature cannot hold (epilogues here: none, bias, relu, gelu)");
    }
    reader.refuse(word, "is no suffix (vecA_B_C, splitkN, Relu, Gelu, preshuffle, streamk, Bias, beta, ...)");
  }
}

std::string_view suffix_word(Epilogue epilogue) {
  const auto found = std::ranges::find(kEpilogueSuffixes, epilogue, &EpilogueSuffix::epilogue);
  return found == std::end(kEpilogueSuffixes) ? std::string_view{} : found->word;
}

std::string print_suffixes(const Signature& signature, const KernelConfig& config) {
  std::string text;
  if (value_of(config, vec_a) != 0 || value_of(config, vec_b) != 0 || value_of(config, vec_c) != 0) {
    text += fmt::format("_vec{}_{}_{}", value_of(config, vec_a), value_of(config, vec_b),
                        value_of(config, vec_c));
  }
  if (value_of(config, split_k) != 1) text += fmt::format("_splitk{}", value_of(config, split_k));
  const std::string_view epilogue_word = suffix_word(signature.epilogue);
  if (epilogue_word == "Relu" || epilogue_word == "Gelu") text += fmt::format("_{}", epilogue_word);
  if (value_of(config, preshuffle) != 0) text += "_preshuffle";
  if (value_of(config, stream_k) != 0) {
    const std::string how = axis_value_text(axis_of(stream_k), value_of(config, stream_k));
    text += how == "atomic" ? "_streamk" : "_streamk_" + how;
  }
  if (epilogue_word.starts_with("Bias")) text += fmt::format("_{}", epilogue_word);
  if (signature.accumulate) text += "_beta";
  const Signature usual = usual_signature(signature.dtype_a, signature.layout);
  if (signature.dtype_b != usual.dtype_b) text += fmt::format("_B{}", word(signature.dtype_b));
  if (signature.dtype_c != usual.dtype_c) text += fmt::format("_C{}", word(signature.dtype_c));
  if (signature.dtype_acc != usual.dtype_acc) text += fmt::format("_Acc{}", word(signature.dtype_acc));
  return text;
}

/// Checks that a name can represent the signature and the config completely.
void check_printable(const Signature& signature, const KernelConfig& config) {
  if (config.space != &ck_tile_gemm_space || signature.op != Op::gemm) {
    fail(Errc::invalid_argument, "only configs and signatures of ck_tile GEMMs have such a name");
  }
  for (std::size_t i = 0; i < ck_tile_gemm_space.axes.size(); ++i) {
    const Axis& axis = ck_tile_gemm_space.axes[i];
    const auto which = static_cast<CkGemmAxis>(i);
    const bool flag = std::ranges::find(kFlags, which) != std::end(kFlags) || which == preshuffle;
    const bool may_be_zero =
        flag || !axis.words.empty() || which == vec_a || which == vec_b || which == vec_c;
    const std::int32_t most = flag                 ? 1
                              : axis.words.empty() ? INT32_MAX
                                                   : static_cast<std::int32_t>(axis.words.size()) - 1;
    if (config[i] < (may_be_zero ? 0 : 1) || config[i] > most) {
      fail(Errc::invalid_argument, "a ck_tile name cannot hold {} = {}", axis.name,
           config[i] == KernelConfig::unknown ? "unknown" : std::to_string(config[i]));
    }
  }
}

/// Whether a text begins like a bare identifier: a dtype, "_" and a layout.
bool starts_with_signature(std::string_view name) noexcept {
  const std::size_t end = name.find('_');
  return end != std::string_view::npos && find_word(name.substr(0, end), EnumWords<DType>::words) &&
         find_word(name.substr(end + 1, name.find('_', end + 1) - end - 1), kGemmLayoutWords);
}

}  // namespace

bool is_ck_tile_name(std::string_view name) noexcept {
  if (name.starts_with("benchmark_")) name.remove_prefix(10);
  return name.starts_with("gemm_") || is_ck_tile_conv_name(name) || starts_with_signature(name);
}

std::string print_ck_tile_gemm(const Signature& signature, const KernelConfig& config) {
  check_printable(signature, config);
  std::string text = fmt::format("gemm_universal_{}_{}", word(signature.dtype_a), word(signature.layout));
  for (const CkGemmAxis axis : {pipeline, epilogue, scheduler}) {
    text += "_" + axis_value_text(axis_of(axis), value_of(config, axis));
  }
  for (const CkGemmAxis axis : kFlags) text += value_of(config, axis) ? "_True" : "_False";
  for (const auto& group : kDims) {
    text += fmt::format("_{}x{}x{}", value_of(config, group[0]), value_of(config, group[1]),
                        value_of(config, group[2]));
  }
  return text + print_suffixes(signature, config);
}

NamedConfig parse_ck_tile_gemm(std::string_view name) {
  NameReader reader("ck_tile", name);
  reader.optional("benchmark_");
  if (!reader.optional("gemm_universal_")) reader.optional("gemm_");
  const auto dtype = static_cast<DType>(reader.part_word("dtype", EnumWords<DType>::words));
  const auto layout = static_cast<Layout>(reader.part_word("layout", kGemmLayoutWords));
  NamedConfig named{usual_signature(dtype, layout), KernelConfig(ck_tile_gemm_space)};
  KernelConfig& config = named.config;
  value_of(config, pipeline) =
      static_cast<std::int32_t>(reader.part_word("pipeline", axis_of(pipeline).words));
  value_of(config, epilogue) =
      static_cast<std::int32_t>(reader.part_word("epilogue", axis_of(epilogue).words));
  std::vector<std::string_view> schedulers(axis_of(scheduler).words.begin(), axis_of(scheduler).words.end());
  schedulers.push_back(ck_tile::kAutoAlias);
  const std::size_t scheduled = reader.part_word("scheduler", schedulers);
  value_of(config, scheduler) = schedulers[scheduled] == ck_tile::kAutoAlias
                                    ? parse_axis_value(axis_of(scheduler), "auto")
                                    : static_cast<std::int32_t>(scheduled);
  for (const CkGemmAxis axis : kFlags) {
    const std::string_view text = reader.part(axis_of(axis).name);
    if (text != "True" && text != "False")
      reader.refuse(text, fmt::format("is not True or False for {}", axis_of(axis).name));
    value_of(config, axis) = text == "True";
  }
  for (std::size_t group = 0; group < 3; ++group) read_dims(reader, config, group);
  for (const CkGemmAxis axis : {vec_a, vec_b, vec_c, preshuffle, stream_k}) value_of(config, axis) = 0;
  value_of(config, split_k) = 1;
  while (!reader.done()) read_suffix(reader, named);
  return named;
}

}  // namespace kscout
