// Writes sources of CK Tile kernels. Code that all kernels share is in src/provider/ck_tile/generate/.
#include <algorithm>

#include <kscout/conv_problem.h>

#include "core/fail.h"
#include "generate/project.h"
#include "provider/ck_tile/ck_tile.h"

namespace kscout {
namespace {

/// The CK Tile classes of a pipeline.
struct PipelineClass {
  std::string_view word, pipeline;
  std::string_view conv_policy;  ///< further template arguments in a convolution
};
constexpr std::string_view kConvPolicy = ", kscout_ck::ConvPolicy";
constexpr PipelineClass kPipelines[] = {
    {"mem", "GemmPipelineAgBgCrMem", kConvPolicy},
    {"basic_v1", "GemmPipelineAGmemBGmemCRegV1", kConvPolicy},
    {"compv1", "GemmPipelineAGmemBGmemCRegV1", kConvPolicy},
    {"compv2", "GemmPipelineAGmemBGmemCRegV2", kConvPolicy},
    {"compv3", "GemmPipelineAgBgCrCompV3", kConvPolicy},
    {"compv4", "GemmPipelineAgBgCrCompV4", ""},
    {"compv5", "GemmPipelineAgBgCrCompV5", ""},
    {"compv6", "GemmPipelineAgBgCrCompV6", ""},
    {"comp_async", "GemmPipelineAgBgCrCompAsync", ""},
    {"basic_async_v1", "GemmPipelineAGmemBGmemCRegAsyncV1", ""},
    {"wavelet", "GemmPipelineAgBgCrWavelet", ", kscout_ck::ConvPolicy, 4"},
};

const PipelineClass& pipeline_class(std::string_view word, std::string_view name) {
  const auto found = std::ranges::find(kPipelines, word, &PipelineClass::word);
  if (found == std::end(kPipelines))
    fail(Errc::unsupported, "'{}': no source can be written for pipeline '{}'", name, word);
  return *found;
}

std::string_view type_name(DType dtype, std::string_view name) {
  switch (dtype) {
    case DType::fp32:
      return "float";
    case DType::fp16:
      return "ck_tile::half_t";
    case DType::bf16:
      return "ck_tile::bf16_t";
    case DType::fp8:
      return "ck_tile::fp8_t";
    case DType::bf8:
      return "ck_tile::bf8_t";
    case DType::int8:
      return "ck_tile::int8_t";
    case DType::int32:
      return "ck_tile::int32_t";
    default:
      fail(Errc::unsupported, "'{}': CK Tile has no kernels of type '{}'", name, word(dtype));
  }
}

std::string axis_word(const KernelConfig& config, std::string_view axis) {
  const std::size_t at = config.space->axis_index(axis);
  return axis_value_text(config.space->axes[at], config[at]);
}

void add_extents(Members& to, const KernelConfig& config) {
  for (const std::string_view group : {"tile", "warp", "warp_tile"}) {
    for (const std::string_view way : {"m", "n", "k"}) {
      const std::string axis = fmt::format("{}_{}", group, way);
      to.number(axis, config[axis]);
    }
  }
}

void add_schedule(Members& to, const KernelConfig& config, const PipelineClass& how, bool conv) {
  const std::string scheduler = axis_word(config, "scheduler");
  to.constant("scheduler", scheduler == "interwave" ? "ck_tile::GemmPipelineScheduler::Interwave"
                                                    : "ck_tile::GemmPipelineScheduler::Intrawave");
  to.alias("class P", "Pipeline", fmt::format("ck_tile::{}<P{}>", how.pipeline, conv ? how.conv_policy : ""));
  to.number("split_k_axis", static_cast<std::int64_t>(config.space->axis_index("split_k")));
}

/// Work-groups per compute unit that the compiler should leave registers for.
int blocks_per_cu(std::string_view pipeline, bool double_buffer) {
  if (pipeline == "compv4" || pipeline == "comp_async") return 1;
  constexpr std::string_view kTwo[] = {"compv1", "compv2", "basic_v1", "basic_async_v1", "wavelet"};
  if (std::ranges::find(kTwo, pipeline) != std::end(kTwo)) return 2;
  return double_buffer ? 1 : 2;
}

/// The source around a config: header, struct Config and the entry of the library's table.
std::string wrapped(std::string_view name, std::string_view header, const Members& members,
                    std::string_view implementation) {
  return fmt::format(
      "// {}\n// Written by kscout generate: what is changed here is lost.\n#include \"ck/{}\"\n\nnamespace "
      "{{\n\n"
      "struct Config {{\n{}}};\n\n}}  // namespace\n\n"
      "extern const kscout_kernel {};\n"
      "const kscout_kernel {} = {{\"{}\", kscout_ck::{}<Config>::workspace_bytes, "
      "kscout_ck::{}<Config>::run, nullptr}};\n",
      name, header, members.text(), kernel_symbol(name), kernel_symbol(name), name, implementation,
      implementation);
}

std::string gemm_source(const NamedConfig& kernel, const std::string& name) {
  const auto& [s, config] = kernel;
  const std::string pipeline = axis_word(config, "pipeline");
  if (s.epilogue != Epilogue::none || s.accumulate || config["preshuffle"] != 0 || config["stream_k"] != 0 ||
      config["vec_a"] != 0 || config["vec_b"] != 0 || config["vec_c"] != 0) {
    fail(Errc::unsupported,
         "'{}': sources are written for plain GEMMs (no fused operation, preshuffle, stream-K or fixed "
         "widths)",
         name);
  }
  const std::string epilogue = axis_word(config, "epilogue");
  if (epilogue != "cshuffle" && epilogue != "default")
    fail(Errc::unsupported, "'{}': no source can be written for epilogue '{}'", name, epilogue);
  const auto layout = [](bool row) {
    return std::string("ck_tile::tensor_layout::gemm::") + (row ? "RowMajor" : "ColumnMajor");
  };
  Members to("ck_tile::index_t");
  to.type("A", type_name(s.dtype_a, name))
      .type("B", type_name(s.dtype_b, name))
      .type("C", type_name(s.dtype_c, name));
  to.type("Acc", type_name(s.dtype_acc, name));
  to.type("ALayout", layout(row_major_a(s.layout))).type("BLayout", layout(row_major_b(s.layout)));
  to.type("CLayout", layout(true));
  add_extents(to, config);
  for (const std::string_view flag : {"pad_m", "pad_n", "pad_k", "persistent", "preshuffle"})
    to.flag(flag, config[flag] != 0);
  to.flag("cshuffle", epilogue == "cshuffle");
  to.flag("double_buffer", pipeline == "compv4");
  to.number("blocks_per_cu", blocks_per_cu(pipeline, pipeline == "compv4"));
  add_schedule(to, config, pipeline_class(pipeline, name), false);
  return wrapped(name, "gemm.hpp", to, "Gemm");
}

/// Types of the tensors of a convolution: a signature stores them by operand of the implicit GEMM.
void add_conv_types(Members& to, const Signature& s, std::string_view name) {
  const auto [in, wei, out] = by_tensor(s.op, s.dtype_a, s.dtype_b, s.dtype_c);
  to.type("In", type_name(in, name)).type("Wei", type_name(wei, name)).type("Out", type_name(out, name));
  to.type("Acc", type_name(s.dtype_acc, name));
}

std::string depthwise_source(const NamedConfig& kernel, const std::string& name) {
  Members to("ck_tile::index_t");
  add_conv_types(to, kernel.signature, name);
  const std::pair<std::string_view, std::string_view> axes[] = {
      {"tile_h", "tile_m"},     {"tile_w", "tile_n"}, {"filter", "filter"},     {"stride_h", "stride_h"},
      {"stride_w", "stride_w"}, {"images", "images"}, {"sub_h", "warp_tile_m"}, {"sub_w", "warp_tile_n"},
      {"vec_in", "vec_a"},      {"vec_out", "vec_c"}};
  for (const auto& [member, axis] : axes) to.number(member, kernel.config[axis]);
  return wrapped(name, "conv.hpp", to, "Depthwise");
}

std::string conv_source(const NamedConfig& kernel, const std::string& name) {
  const auto& [s, config] = kernel;
  const std::string pipeline = axis_word(config, "pipeline");
  if (pipeline == "depthwise") return depthwise_source(kernel, name);
  if (s.layout != Layout::nhwgc && s.layout != Layout::ndhwgc)
    fail(Errc::unsupported, "'{}': implicit GEMMs are written for nhwgc and ndhwgc", name);
  // CK's own generator stores the results of both as cshuffle does: `default` is a name.
  const std::string epilogue = axis_word(config, "epilogue");
  if (epilogue != "cshuffle" && epilogue != "default")
    fail(Errc::unsupported, "'{}': no source can be written for epilogue '{}'", name, epilogue);
  const bool deep = s.layout == Layout::ndhwgc;
  const std::string convolution = "ck_tile::tensor_layout::convolution::";
  Members to("ck_tile::index_t");
  add_conv_types(to, s, name);
  to.type("InLayout", convolution + (deep ? "NDHWGC" : "NHWGC"));
  to.type("WeiLayout", convolution + (deep ? "GKZYXC" : "GKYXC"));
  to.type("OutLayout", convolution + (deep ? "NDHWGK" : "NHWGK"));
  to.number("rank", deep ? 3 : 2);
  constexpr std::string_view kSpecializations[] = {"Default", "Filter1x1Pad0", "Filter1x1Stride1Pad0",
                                                   "Filter3x3"};
  to.constant("specialization",
              fmt::format("ck_tile::ConvolutionSpecialization::{}",
                          kSpecializations[static_cast<std::size_t>(config["specialization"])]));
  add_extents(to, config);
  for (const std::string_view axis : {"vec_a", "vec_b", "vec_c", "wave_groups", "merged_groups"})
    to.number(axis, config[axis]);
  for (const std::string_view flag : {"double_buffer", "two_stage", "explicit_gemm", "split_image"})
    to.flag(flag, config[flag] != 0);
  const std::string stream_k = axis_word(config, "stream_k");
  to.flag("stream_k", stream_k != "off");
  const std::int32_t asked = config["blocks_per_cu"];
  to.number("blocks_per_cu", asked != 0 ? asked : blocks_per_cu(pipeline, config["double_buffer"] != 0));
  add_schedule(to, config, pipeline_class(pipeline, name), true);
  const std::string_view direction = s.op == Op::conv_fwd        ? "Forward"
                                     : s.op == Op::conv_bwd_data ? "BackwardData"
                                                                 : "BackwardWeight";
  to.alias("class C, class T", "Direction", fmt::format("kscout_ck::{}<C, T>", direction));
  if (stream_k == "off") {
    to.alias(
        "class S, class F", "Partitioner",
        "ck_tile::GemmSpatiallyLocalTilePartitioner<S, F::TilePartitionerGroupNum, F::TilePartitionerM01>");
  } else {
    const bool persistent = stream_k.ends_with("_persistent");
    const std::string_view how = stream_k.starts_with("tree")     ? "Tree"
                                 : stream_k.starts_with("linear") ? "Linear"
                                                                  : "Atomic";
    to.alias("class S, class F", "Partitioner",
             fmt::format("ck_tile::StreamKTilePartitioner<S, ck_tile::StreamKReductionStrategy::{}, {}>", how,
                         persistent));
  }
  return wrapped(name, "conv.hpp", to, "Conv");
}

std::string kernel_name(const NamedConfig& kernel) { return config_name(kernel.signature, kernel.config); }

std::string kernel_source(const NamedConfig& kernel) {
  const std::string name = kernel_name(kernel);
  return is_direction(kernel.signature.op) ? conv_source(kernel, name) : gemm_source(kernel, name);
}

/// One source per kernel, because kernels compile slowly and some fail.
std::string unit_source(std::string_view, std::span<const std::string> kernels) { return kernels[0]; }

std::vector<std::string> compile_flags(const Device&) { return {"-fPIC"}; }

std::string cmake_target(std::string_view target) {
  return fmt::format(
      "set_target_properties({0} PROPERTIES CXX_VISIBILITY_PRESET hidden)\n"
      "target_compile_options({0} PRIVATE -x hip --offload-arch=${{GPU_TARGET}})\n"
      "target_link_options({0} PRIVATE --hip-link --offload-arch=${{GPU_TARGET}})\n",
      target);
}

constexpr std::pair<std::string_view, std::string_view> kShared[] = {
    {"ck/generation.hpp", "src/provider/ck_tile/generate/generation.hpp"},
    {"ck/common.hpp", "src/provider/ck_tile/generate/common.hpp"},
    {"ck/gemm.hpp", "src/provider/ck_tile/generate/gemm.hpp"},
    {"ck/conv.hpp", "src/provider/ck_tile/generate/conv.hpp"},
};

}  // namespace

const Emitter& ck_tile_emitter() {
  static const Emitter emitter{
      .provider = "ck_tile",
      .title = "CK Tile",
      .backend = "hip",
      .compiler = "hipcc",
      .shared = kShared,
      .max_in_unit = 1,
      .kernel_name = kernel_name,
      .group = kernel_name,
      .extension = "cpp",
      .kernel = kernel_source,
      .unit = unit_source,
      .compile_flags = compile_flags,
      .link_flags = {"-shared", "-x", "none"},  // "none": objects are not HIP sources
      .warning = {},
      .languages = "CXX",
      .root_variable = "CK_ROOT",
      .root_help = "checkout or installation of Composable Kernel (its include folder's parent)",
      .cmake_target = cmake_target};
  return emitter;
}

}  // namespace kscout
