#pragma once
/// \file
/// Provider `cublaslt`: the algorithms of NVIDIA's cuBLASLt, described. Pure: needs neither the library nor a
/// GPU.
///
///     const CublasLtConfig config = CublasLtConfig::from(kernel_config);
///     KernelConfig same = config.kernel_config();
///
/// The library numbers its algorithms anew with every release, so a config is bound to one (axis `version`).
/// Which algorithms exist is found on a GPU (`kscout harvest`), and kept as lists in
/// families/cublaslt_gemm.toml; whether one takes a problem is the library's own last word.
///
/// Names follow this grammar (whole numbers without leading zeros, words as listed):
///
///     name      = "cublaslt_gemm_" dtype "_" layout { "_" type } ["_" epilogue] ["_acc"] "_v" version "__" how
///     type      = "B" dtype | "C" dtype | "Acc" dtype       when it is not what A's type usually gets (make_gemm)
///     how       = "suggestion" n | algorithm
///     algorithm = "a" id "_" tile_m "x" tile_n "x" tile_k "_st" stages "_s" split_k "_" reduction
///                 "_w" swizzle "_o" custom "_" inner "_c" cluster_m "x" cluster_n
///
/// for example cublaslt_gemm_bf16_rcr_v130100__a66_128x256x64_st0_s1_none_w0_o0_any_c2x1 and
/// cublaslt_gemm_bf16_rcr_v0__suggestion1. Stages 0: the library's choice; split_k 0: it divides K its own
/// way; tile or cluster 0x0: not said.
#include <kscout/provider.h>

namespace kscout {

/// One point of the space with typed fields, in the order of the axes; their help is in cublaslt.cpp.
struct CublasLtConfig {
  std::int32_t version = 0;     ///< cublasLtGetVersion(); 0 = whichever release is there
  std::int32_t suggestion = 0;  ///< n: what the library's heuristic names n-th; then the rest is 0
  std::int32_t algorithm = 0, tile_m = 0, tile_n = 0, tile_k = 0, stages = 0, split_k = 0, reduction = 0,
               swizzle = 0, custom = 0, inner = 0, cluster_m = 0, cluster_n = 0;

  /// Throws invalid_argument when the config is of another space or an axis is unknown.
  static CublasLtConfig from(const KernelConfig& config);
  KernelConfig kernel_config() const;
};

extern const ConfigSpace cublaslt_gemm_space;
const Provider& cublaslt_provider();

/// Workspace that an algorithm may use: what NVIDIA recommends for Hopper. Part of what a config means, so
/// that every algorithm is chosen under the same limit.
inline constexpr std::uint64_t kCublasLtWorkspace = std::uint64_t{32} << 20;

/// Whether split-K slices are summed in the accumulator's type under this value of axis `reduction`. In a
/// narrower C (in place, or as partial results) they are not, and the result is not what the signature says.
bool cublaslt_sums_in_accumulator(const Signature& signature, std::int32_t reduction) noexcept;

/// Why the library computes no such product; empty when it may.
std::string cublaslt_unsupported(const Signature& signature);

}  // namespace kscout
