#pragma once
/// \file
/// Provider `ck_tile`: the kernels of AMD's CK Tile library, described. Pure: needs no GPU. Convolutions
/// stand in conv.h; here is what GEMMs have.
///
/// Names are those of CK's own tools, so that their logs and tables can be read:
///
///     name   = "gemm_universal_" body
///     body   = dtype "_" layout "_" pipeline "_" epilogue "_" scheduler
///              "_" flag "_" flag "_" flag "_" flag "_" dims "_" dims "_" dims { "_" suffix }
///     flag   = "True" | "False"                pad_m, pad_n, pad_k, persistent
///     dims   = int "x" int "x" int             tile, waves (warp_m/n/k), warp tile
///     suffix = "vec" int "_" int "_" int       fixed vector widths (absent: native)
///            | "splitk" int | "Relu" | "Gelu" | "preshuffle"
///            | "streamk" [ "_linear" | "_tree" ]      (alone: atomic reduction)
///            | "Bias" | "BiasRelu" | "BiasGelu" | "beta" | "B" dtype | "C" dtype | "Acc" dtype   (ours)
///
/// print() writes this form, suffixes in the order above; "B", "C", "Acc" appear when a type is not the one
/// that CK pairs with A's (make_gemm). parse() also reads "gemm_" body, the bare body (the dispatcher's
/// identifier), and a leading "benchmark_". Suffix words that say something a signature here cannot hold
/// (other fused operations, extra D tensors, sparsity) are refused by name.
#include <string>
#include <string_view>

#include <kscout/provider.h>

namespace kscout {

extern const ConfigSpace ck_tile_gemm_space;
const Provider& ck_tile_provider();

/// True when a name looks like one of this provider's.
bool is_ck_tile_name(std::string_view name) noexcept;

/// The two halves of the name grammar; Provider::print and Provider::parse call them.
std::string print_ck_tile_gemm(const Signature& signature, const KernelConfig& config);
NamedConfig parse_ck_tile_gemm(std::string_view name);

/// Axes by position, for code that fills or reads many configs.
enum class CkGemmAxis : std::size_t {
  tile_m,
  tile_n,
  tile_k,
  warp_m,
  warp_n,
  warp_k,
  warp_tile_m,
  warp_tile_n,
  warp_tile_k,
  pipeline,
  scheduler,
  epilogue,
  pad_m,
  pad_n,
  pad_k,
  persistent,
  vec_a,
  vec_b,
  vec_c,
  split_k,
  preshuffle,
  stream_k,
  count,
};

}  // namespace kscout
