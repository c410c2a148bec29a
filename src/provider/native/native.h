#pragma once
/// \file
/// Describes the f32 GEMM kernels of backend `cpu` (provider `native`).
///
///     const NativeConfig config = NativeConfig::from(kernel_config);
///     if (config.threads() > cores) ...
///
/// Names follow this grammar (whole numbers without leading zeros, words as listed):
///
///     name   = "native_gemm_" dtype "_" layout ["_" epilogue] ["_acc"] "__" kernel "_" launch
///     kernel = isa "_" kind "_" mr "x" nr "_" packs ["_p" prefetch]
///     launch = "b" mc "x" kc "x" nc "_" order "_s" split_k "_t" threads_m "x" threads_n
///     packs  = "nopack" | "packa" | "packb" | "packab"
///
/// for example native_gemm_fp32_rcr__avx2_tiled_6x16_packab_b144x256x4096_n_s1_t1x2. `_acc` means that C is
/// read (beta != 0); `_p` is omitted without prefetching.
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <kscout/provider.h>

namespace kscout {

enum class NativeIsa : std::int32_t { scalar, avx2, avx512 };
inline constexpr std::string_view kNativeIsaWords[] = {"scalar", "avx2", "avx512"};
/// How a kernel traverses the problem.
enum class NativeKind : std::int32_t {
  tiled,  ///< register tiles of C by outer products, inside cache blocks; operands packed or read in place
  dot,  ///< register tiles of C by dot products along K: no transposition where both operands are contiguous
        ///< along K
  skinny_m,  ///< few rows of C: streams B once, by dot products or row updates, depending on B's storage
  skinny_n,  ///< few columns of C: streams A once, in the same way
  small,     ///< outer products without cache blocks: lowest overhead
};
inline constexpr std::string_view kNativeKindWords[] = {"tiled", "dot", "skinny_m", "skinny_n", "small"};
enum class NativeOrder : std::int32_t { m, n, k };
inline constexpr std::string_view kNativeOrderWords[] = {"m", "n", "k"};
/// Whether an operand is copied into the order in which the inner loop reads it.
inline constexpr std::string_view kNativePackWords[] = {"none", "pack"};

/// A config with typed members; native.cpp contains their help.
struct NativeConfig {
  NativeIsa isa;
  NativeKind kind;
  std::int32_t mr, nr;
  bool pack_a, pack_b;
  std::int32_t prefetch;
  std::int32_t mc, kc, nc;
  NativeOrder order;
  std::int32_t split_k;
  std::int32_t threads_m, threads_n;

  std::int32_t threads() const noexcept { return threads_m * threads_n * split_k; }
  /// Throws invalid_argument when the config belongs to another space or an axis is unknown.
  static NativeConfig from(const KernelConfig& config);
};

extern const ConfigSpace native_gemm_space;
const Provider& native_provider();

/// What a config asks of the machine.
struct NativeNeeds {
  NativeIsa isa;
  int threads;
};
/// The kernels of one operation.
struct NativeKernels {
  std::string_view prefix;                     ///< of their names: "native_gemm_"
  std::span<const ConfigSpace* const> spaces;  ///< one per op
  bool has_register_tiles = false;             ///< rules get the terms of register_tile_terms()
  NativeNeeds (*needs)(const KernelConfig& config);
  /// As the functions of Provider, for signatures, names and configs of these spaces. The signature that
  /// print() gets is one that the family's rules accept.
  std::string (*print)(const Signature& signature, const KernelConfig& config);
  NamedConfig (*parse)(std::string_view name);
  Traits (*traits)(const Signature& signature, const KernelConfig& config);
};
const NativeKernels& native_gemm_kernels();
/// The kernels of the operation that a space of provider `native` belongs to.
const NativeKernels& native_kernels_of(const ConfigSpace& space);
/// Kernels of operations that a program links in addition: it defines this function. None otherwise.
std::span<const NativeKernels> further_native_kernels() noexcept;

/// Limits of the compiled register tiles of an instruction set. Accumulators, the vectors of a row of B and
/// one broadcast of A must fit the registers: 16, or 32 with AVX-512.
struct RegisterTiles {
  std::int32_t lanes;         ///< f32 lanes of a vector
  std::int32_t rows[4];       ///< maximum number of rows of an outer-product tile of 1, 2, 3, 4 vectors
  std::int32_t accumulators;  ///< maximum number of a dot-product tile, and of a tile of conv kind `lanes`
};
constexpr RegisterTiles register_tiles(NativeIsa isa) noexcept {
  constexpr RegisterTiles of_isa[] = {
      {1, {12, 6, 4, 3}, 12}, {8, {12, 6, 4, 3}, 12}, {16, {16, 14, 9, 6}, 24}};
  return of_isa[static_cast<std::int32_t>(isa)];
}
/// Maximum number of rows and columns of a dot-product tile, of narrow rows of a row-update tile, and of
/// pixels of a tile of conv kind `lanes`.
inline constexpr int kMaxTileSide = 8;

/// The same limits as terms, name and formula, for the rules of families/native_*.toml: lanes, outer_rows (0
/// for a width c.nr that is not compiled), accumulators, tile_side.
std::vector<std::pair<std::string, std::string>> register_tile_terms();

/// Number of lanes of an f32 vector.
inline std::int32_t native_lanes(NativeIsa isa) noexcept { return register_tiles(isa).lanes; }

/// The inner loop that a kind uses for a layout.
enum class NativeForm { outer, dot, update };
NativeForm native_form(NativeKind kind, Layout layout) noexcept;

// ---- What kernels of several operations have in common.

inline constexpr Axis kNativeIsaAxis{"isa", "1", "instruction set of the inner loop", kNativeIsaWords};
inline constexpr Axis kNativePackAxes[] = {
    {"pack_a", "1", "copy A into the order in which the inner loop reads it", kNativePackWords},
    {"pack_b", "1", "copy B into the order in which the inner loop reads it", kNativePackWords}};
/// Cache blocks.
inline constexpr Axis kNativeBlockAxes[] = {
    {"mc", "elements", "rows of a cache block, rounded up to whole register tiles; 0 = all", {}, true},
    {"kc", "elements", "depth of a cache block; 0 = all", {}, true},
    {"nc", "elements", "columns of a cache block, rounded up to whole register tiles; 0 = all", {}, true}};

/// The traits of a product's kernel that do not depend on how operands are shared: without shared_bytes and
/// kind.
Traits native_product_traits(const NativeConfig& config, Layout layout);

}  // namespace kscout
