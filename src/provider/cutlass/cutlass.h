#pragma once
/// \file
/// Describes the GEMM kernels that NVIDIA's CUTLASS templates generate for Hopper (provider `cutlass`). Needs
/// neither CUTLASS nor a GPU. `kscout generate --provider cutlass` writes the kernels' sources.
///
///     const CutlassConfig config = CutlassConfig::from(kernel_config);
///     std::string kernel = cutlass_kernel_name(signature, kernel_config);   // without the launch axes
///
/// Rows and columns are those of the problem's C, even where a kernel computes C transposed (swap_ab), so
/// that configs are comparable with cuBLASLt's.
///
/// Names follow this grammar (whole numbers without leading zeros, words as listed in cutlass.cpp):
///
///     name   = kernel "__" raster "_z" swizzle "_" decomposition "_k" split_k
///     kernel = "cutlass_gemm_" signature "__" pipeline "_" tile_m "x" tile_n "x" tile_k "_w" warp_m "x" warp_n
///              "_c" cluster_m "x" cluster_n "_" scheduler "_" epilogue "_s" stages "_a" align ["_swap"] ["_fast"]
///
/// for example
/// cutlass_gemm_bf16_rcr__wgmma_coop_128x256x64_w0x0_c2x1_persistent_tma_s0_a16__along_m_z1_data_parallel_k1.
/// src/provider/name_reader.h defines the signature.
#include <kscout/provider.h>

namespace kscout {

enum class CutlassPipeline : std::int32_t { wgmma_coop, wgmma_pingpong, mma80 };
enum class CutlassScheduler : std::int32_t { persistent, stream_k, grid };
enum class CutlassEpilogue : std::int32_t { tma, nosmem, smem };
enum class CutlassRaster : std::int32_t { along_m, along_n };
enum class CutlassDecomposition : std::int32_t { data_parallel, split_k, stream_k };

/// A config with typed members, in the order of the axes; cutlass.cpp contains their help.
struct CutlassConfig {
  std::int32_t pipeline = 0, tile_m = 0, tile_n = 0, tile_k = 0, warp_m = 0, warp_n = 0, cluster_m = 1,
               cluster_n = 1, scheduler = 0, epilogue = 0, stages = 0, align = 16;
  bool swap_ab = false, fast_accum = false;
  std::int32_t raster = 0, swizzle = 1, decomposition = 0, split_k = 1;

  bool is(CutlassPipeline what) const { return pipeline == static_cast<std::int32_t>(what); }
  bool is(CutlassScheduler what) const { return scheduler == static_cast<std::int32_t>(what); }
  bool is(CutlassEpilogue what) const { return epilogue == static_cast<std::int32_t>(what); }

  /// Throws invalid_argument when the config belongs to another space or an axis is unknown.
  static CutlassConfig from(const KernelConfig& config);
  KernelConfig kernel_config() const;
};

extern const ConfigSpace cutlass_gemm_space;
const Provider& cutlass_provider();

/// The name of the compiled kernel that a config runs, as kernel libraries use it: without the launch axes.
/// Throws the errors of Provider::print.
std::string cutlass_kernel_name(const Signature& signature, const KernelConfig& config);

}  // namespace kscout
