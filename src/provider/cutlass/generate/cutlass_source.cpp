// Writes sources of CUTLASS kernels. Code that all kernels share is in src/provider/cutlass/generate/.
#include <algorithm>

#include "core/fail.h"
#include "generate/project.h"
#include "provider/cutlass/cutlass.h"

namespace kscout {
namespace {

constexpr std::string_view kRow = "cutlass::layout::RowMajor", kColumn = "cutlass::layout::ColumnMajor";

std::string_view type_name(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return "cutlass::bfloat16_t";
    case DType::fp16:
      return "cutlass::half_t";
    case DType::fp8:
      return "cutlass::float_e4m3_t";
    case DType::fp32:
      return "float";
    default:
      fail(Errc::unsupported, "no CUTLASS kernels of type '{}'", word(dtype));
  }
}

bool is_mma80(const NamedConfig& kernel) {
  return CutlassConfig::from(kernel.config).is(CutlassPipeline::mma80);
}

std::int64_t axis(std::string_view name) {
  return static_cast<std::int64_t>(cutlass_gemm_space.axis_index(name));
}

/// Types, layouts and extents of the product that the kernel computes. A kernel that computes C transposed
/// gets A' = B transposed, B' = A transposed and a column-major C'.
void add_product(Members& to, const Signature& s, const CutlassConfig& c) {
  const bool swap = c.swap_ab;
  const auto layout = [](bool row) { return row ? kRow : kColumn; };
  to.type("A", type_name(swap ? s.dtype_b : s.dtype_a)).type("B", type_name(swap ? s.dtype_a : s.dtype_b));
  to.type("C", type_name(s.dtype_c)).type("Acc", type_name(s.dtype_acc));
  to.type("LayoutA", layout(swap ? !row_major_b(s.layout) : row_major_a(s.layout)));
  to.type("LayoutB", layout(swap ? !row_major_a(s.layout) : row_major_b(s.layout)));
  to.type("LayoutC", layout(!swap));
  to.number("tile_m", swap ? c.tile_n : c.tile_m).number("tile_n", swap ? c.tile_m : c.tile_n);
  to.number("tile_k", c.tile_k).number("stages", c.stages);
  to.number("align_ab", std::max<std::int64_t>(1, c.align / static_cast<int>(bytes_per_element(s.dtype_a))));
  const bool by_element = c.is(CutlassEpilogue::nosmem);
  to.number(
      "align_c",
      by_element ? 1 : std::max<std::int64_t>(1, c.align / static_cast<int>(bytes_per_element(s.dtype_c))));
  to.flag("reads_c", s.accumulate).flag("stream_k", c.is(CutlassScheduler::stream_k));
  to.number("decomposition_axis", axis("decomposition")).number("split_k_axis", axis("split_k"));
}

/// Activation of generate/common.hpp.
int activation_of(Epilogue epilogue) {
  const bool relu = epilogue == Epilogue::relu || epilogue == Epilogue::bias_relu;
  return relu ? 1 : epilogue == Epilogue::gelu || epilogue == Epilogue::bias_gelu ? 2 : 0;
}

void add_wgmma(Members& to, const Signature& s, const CutlassConfig& c) {
  const bool coop = c.is(CutlassPipeline::wgmma_coop), swap = c.swap_ab;
  to.number("cluster_m", swap ? c.cluster_n : c.cluster_m)
      .number("cluster_n", swap ? c.cluster_m : c.cluster_n);
  to.flag("swap_ab", swap).flag("has_bias", has_bias(s.epilogue));
  to.number("activation", activation_of(s.epilogue));
  to.number("raster_axis", axis("raster")).number("swizzle_axis", axis("swizzle"));
  to.type("Schedule", fmt::format("cutlass::gemm::KernelTmaWarpSpecialized{}{}",
                                  coop ? "Cooperative" : "Pingpong", c.fast_accum ? "FP8FastAccum" : ""));
  to.type("Epilogue", !c.is(CutlassEpilogue::tma) ? "cutlass::epilogue::NoSmemWarpSpecialized"
                      : coop                      ? "cutlass::epilogue::TmaWarpSpecializedCooperative"
                                                  : "cutlass::epilogue::TmaWarpSpecialized");
  to.type("Scheduler", c.is(CutlassScheduler::stream_k) ? "cutlass::gemm::StreamKScheduler"
                                                        : "cutlass::gemm::PersistentScheduler");
}

std::string kernel_name(const NamedConfig& kernel) {
  return cutlass_kernel_name(kernel.signature, kernel.config);
}

std::string kernel_source(const NamedConfig& kernel) {
  const std::string name = kernel_name(kernel), symbol = kernel_symbol(name);
  const CutlassConfig c = CutlassConfig::from(kernel.config);
  const bool mma80 = is_mma80(kernel);
  Members to("int");
  add_product(to, kernel.signature, c);
  if (mma80) {
    to.number("warp_m", c.warp_m).number("warp_n", c.warp_n);
  } else {
    add_wgmma(to, kernel.signature, c);
  }
  const std::string made = fmt::format("kscout_cutlass::{}<c{}>", mma80 ? "Mma80" : "Wgmma", symbol);
  return fmt::format(
      "// {}\nnamespace {{\nstruct c{} {{\n{}}};\n}}  // namespace\nextern const kscout_kernel {};\n"
      "const kscout_kernel {} = {{\"{}\", {}::workspace_bytes, {}::run, nullptr}};\n",
      name, symbol, to.text(), symbol, symbol, name, made, made);
}

/// Several kernels share a source, because the common headers take most of the compiler's time.
std::string group(const NamedConfig& kernel) {
  const std::string name = kernel_name(kernel);
  return fmt::format("{}_{}", name.substr(0, name.find("__")), is_mma80(kernel) ? "mma80" : "wgmma");
}

std::string unit_source(std::string_view group, std::span<const std::string> kernels) {
  std::string text = fmt::format(
      "// Kernels of CUTLASS. Written by kscout generate: what is changed here is lost.\n"
      "#include \"shared/{}.hpp\"\n",
      group.ends_with("mma80") ? "mma80" : "wgmma");
  for (const std::string& kernel : kernels) text += "\n" + kernel;
  return text;
}

/// NDEBUG: with assertions, ptxas serialises wgmma (warning C7510). 2908: CUTLASS 4.2 raises this warning
/// under C++20.
std::vector<std::string> compile_flags(const Device&) {
  return {
      "-DNDEBUG", "-Xcompiler", "-fPIC,-fvisibility=hidden",   "--expt-relaxed-constexpr", "-diag-suppress",
      "2908",     "-gencode",   "arch=compute_90a,code=sm_90a"};
}

std::string cmake_target(std::string_view target) {
  return fmt::format(
      "set_target_properties({0} PROPERTIES CUDA_ARCHITECTURES OFF CUDA_VISIBILITY_PRESET hidden "
      "CUDA_STANDARD 20)\n"
      "target_compile_definitions({0} PRIVATE NDEBUG)\n"
      "target_compile_options({0} PRIVATE \"$<$<COMPILE_LANGUAGE:CUDA>:SHELL:--expt-relaxed-constexpr "
      "-diag-suppress 2908 "
      "-gencode arch=compute_90a,code=sm_90a>\")\n",
      target);
}

constexpr std::pair<std::string_view, std::string_view> kShared[] = {
    {"shared/common.hpp", "src/provider/cutlass/generate/common.hpp"},
    {"shared/wgmma.hpp", "src/provider/cutlass/generate/wgmma.hpp"},
    {"shared/mma80.hpp", "src/provider/cutlass/generate/mma80.hpp"},
};

}  // namespace

const Emitter& cutlass_emitter() {
  static const Emitter emitter{.provider = "cutlass",
                               .title = "CUTLASS",
                               .backend = "cuda",
                               .compiler = "nvcc",
                               .shared = kShared,
                               .max_in_unit = 8,
                               .kernel_name = kernel_name,
                               .group = group,
                               .extension = "cu",
                               .kernel = kernel_source,
                               .unit = unit_source,
                               .compile_flags = compile_flags,
                               .link_flags = {"-shared"},
                               .warning = "(C75",
                               .languages = "CXX CUDA",
                               .root_variable = "CUTLASS_ROOT",
                               .root_help = "folder that contains CUTLASS's include folder",
                               .cmake_target = cmake_target};
  return emitter;
}

}  // namespace kscout
