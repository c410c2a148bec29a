#pragma once
/// \file
/// Describes the algorithms of NVIDIA's cuBLASLt (provider `cublaslt`). Needs neither the library nor a GPU.
///
///     const CublasLtConfig config = CublasLtConfig::from(kernel_config);
///     KernelConfig same = config.kernel_config();
///
/// Each release of the library renumbers its algorithms, so a config is bound to one release (axis
/// `version`). A sweep asks the library which algorithms it lists for each problem; whether it takes one is
/// decided at run time.
///
/// Names follow this grammar (whole numbers without leading zeros, words as listed):
///
///     name      = "cublaslt_gemm_" dtype "_" layout { "_" type } ["_" epilogue] ["_acc"] "_v" version "__" how
///     type      = "B" dtype | "C" dtype | "Acc" dtype       when it differs from the usual type for A's (make_gemm)
///     how       = "suggestion" n [ "_" algorithm ] | algorithm
///     algorithm = "a" id "_" tile_m "x" tile_n "x" tile_k "_st" stages "_s" split_k "_" reduction
///                 "_w" swizzle "_o" custom "_" inner "_c" cluster_m "x" cluster_n
///
/// for example cublaslt_gemm_bf16_rcr_v130100__a66_128x256x64_st0_s1_none_w0_o0_any_c2x1 and
/// cublaslt_gemm_bf16_rcr_v0__suggestion1. Stages 0: the library chooses; split_k 0: the library divides K in
/// its own way; tile or cluster 0x0: not stated. A suggestion without an algorithm is whichever the library
/// lists there when the config is prepared; one with an algorithm runs that, which the library listed there
/// before.
#include <optional>
#include <vector>

#include <kscout/provider.h>

namespace kscout {

/// A config with typed members, in the order of the axes; cublaslt.cpp contains their help.
struct CublasLtConfig {
  std::int32_t version = 0;  ///< cublasLtGetVersion(); 0 = any installed release
  /// n: the n-th suggestion of the library's heuristic. Unless the config is_named(), all other members are
  /// then 0.
  std::int32_t suggestion = 0;
  std::int32_t algorithm = 0, tile_m = 0, tile_n = 0, tile_k = 0, stages = 0, split_k = 0, reduction = 0,
               swizzle = 0, custom = 0, inner = 0, cluster_m = 0, cluster_n = 0;

  /// Throws invalid_argument when the config belongs to another space or an axis is unknown.
  static CublasLtConfig from(const KernelConfig& config);
  KernelConfig kernel_config() const;
  /// Whether it says which algorithm runs.
  bool is_named() const noexcept { return suggestion == 0 || algorithm > 0 || tile_m > 0 || split_k > 0; }
  bool operator==(const CublasLtConfig&) const = default;
};

/// The same algorithm with other numbers of split-K slices: few ones, and those that fill the multiprocessors
/// once or twice. Each slice has a tile of K, and together they reach the end of K: whatever an algorithm's
/// number means in a release, it need not check this. Empty for batches and where the tile is not known.
std::vector<KernelConfig> other_splits(const GemmProblem& problem, const KernelConfig& named, double cores);

/// An algorithm as cublasLtMatmulAlgoInit (`id`) and cublasLtMatmulAlgoConfigSetAttribute take it.
struct CublasLtNumbers {
  std::int32_t id = 0;
  std::uint32_t tile = 0, stages = 0;
  std::int32_t split_k = 0;  ///< -1: the library divides K in its own way
  std::uint32_t reduction = 0, swizzle = 0, custom = 0;
  std::uint16_t inner = 0, cluster = 0;
  bool operator==(const CublasLtNumbers&) const = default;
};

/// Nothing for a suggestion that is not named, and for a tile, stages or a cluster that the library's header
/// at the build had no number for (library_numbers.h).
std::optional<CublasLtNumbers> library_numbers(const CublasLtConfig& config);
/// The reverse: nothing for such numbers.
std::optional<CublasLtConfig> config_of(const CublasLtNumbers& numbers, std::int32_t version);

extern const ConfigSpace cublaslt_gemm_space;
const Provider& cublaslt_provider();

/// Maximum workspace of an algorithm: NVIDIA's recommendation for Hopper. The limit is part of a config's
/// meaning, so that every algorithm is chosen under the same limit.
inline constexpr std::uint64_t kCublasLtWorkspace = std::uint64_t{32} << 20;

}  // namespace kscout
