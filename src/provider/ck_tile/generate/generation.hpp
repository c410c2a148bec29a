#pragma once
// Targets CK Tile's headers of 2026 and also supports those of October and November 2025. Where their
// interfaces differ, this file gives all one name. A feature that the older headers lack fails to compile
// with a message.
#include <type_traits>

#include "ck_tile/core.hpp"
#include "ck_tile/host/stream_config.hpp"
#include "ck_tile/ops/elementwise.hpp"
#include "ck_tile/ops/epilogue.hpp"
#include "ck_tile/ops/gemm.hpp"
// Comes after the headers that it uses without including them.
#include "ck_tile/ops/grouped_convolution.hpp"

// The headers' year and month: the features that differ.
#if __has_include( \
    "ck_tile/ops/grouped_convolution/pipeline/grouped_conv_universal_pipeline_ag_bg_cr_policy.hpp")
#define KSCOUT_CK_TILE 202601
#elif __has_include("ck_tile/ops/gemm/pipeline/gemm_pipelines.hpp")
#define KSCOUT_CK_TILE 202511
#else
#define KSCOUT_CK_TILE 202510
#endif

namespace kscout_ck {

using ck_tile::index_t;
using PassThrough = ck_tile::element_wise::PassThrough;

/// False, evaluated only when a template is instantiated.
template <class T>
inline constexpr bool never = false;

/// Whether results overwrite C or are added to it. Newer headers decide this at run time. Older ones decide
/// it at compile time, so each kernel is compiled both ways.
enum class Store { over, add };

#if KSCOUT_CK_TILE >= 202601

template <class A, class B, class Acc, class Shape, class Traits, ck_tile::GemmPipelineScheduler scheduler,
          bool fixed = false, index_t vec_a = 1, index_t vec_b = 1>
using PipelineProblem =
    ck_tile::UniversalGemmPipelineProblem<A, B, Acc, Shape, Traits, scheduler, PassThrough, PassThrough, A, B,
                                          fixed, vec_a, vec_b>;

template <Store, class A, class B, class Acc, class C, class DsLayout, class Tile, bool transposed,
          index_t wave_groups = 1, bool fixed = false, index_t vec_c = 1>
using ShuffledStore = ck_tile::CShuffleEpilogue<ck_tile::CShuffleEpilogueProblem<
    A, B, ck_tile::tuple<>, Acc, C, DsLayout, ck_tile::tensor_layout::gemm::RowMajor, PassThrough,
    Tile::tile_m, Tile::tile_n, Tile::warp_m, Tile::warp_n, Tile::warp_tile_m, Tile::warp_tile_n,
    Tile::warp_tile_k, transposed, wave_groups, fixed, vec_c>>;

template <Store, class A, class B, class Acc, class C, class Tile>
using PlainStore = ck_tile::DefaultGemm2DEpilogue<ck_tile::DefaultGemm2DEpilogueProblem<
    A, B, ck_tile::tuple<>, Acc, C, ck_tile::tuple<>, ck_tile::tensor_layout::gemm::RowMajor, PassThrough,
    Tile::tile_m, Tile::tile_n, Tile::pad_m, Tile::pad_n, Tile::warp_tile_m, Tile::warp_tile_n,
    Tile::warp_tile_k, false>>;

template <class Config>
using ConvTraitsOf =
    ck_tile::GroupedConvTraits<Config::rank, Config::specialization, typename Config::InLayout,
                               typename Config::WeiLayout, ck_tile::tuple<>, typename Config::OutLayout,
                               Config::vec_a, Config::vec_b, Config::vec_c, Config::merged_groups,
                               Config::split_image, Config::explicit_gemm>;
/// How a convolution's pipeline loads its tiles.
using ConvPolicy = ck_tile::GroupedConvUniversalPipelineAgBgCrPolicy;

#else

template <class A, class B, class Acc, class Shape, class Traits, ck_tile::GemmPipelineScheduler scheduler,
          bool fixed = false, index_t vec_a = 1, index_t vec_b = 1>
using PipelineProblem = ck_tile::UniversalGemmPipelineProblem<A, B, Acc, Shape, Traits, scheduler, true,
                                                              ck_tile::TailNumber::Full, PassThrough,
                                                              PassThrough, A, fixed, vec_a, vec_b>;

constexpr ck_tile::memory_operation_enum operation_of(Store store) {
  return store == Store::add ? ck_tile::memory_operation_enum::atomic_add
                             : ck_tile::memory_operation_enum::set;
}

template <Store store, class A, class B, class Acc, class C, class DsLayout, class Tile, bool transposed,
          index_t wave_groups = 1, bool fixed = false, index_t vec_c = 1>
using ShuffledStore = ck_tile::CShuffleEpilogue<ck_tile::CShuffleEpilogueProblem<
    A, B, ck_tile::tuple<>, Acc, C, DsLayout, ck_tile::tensor_layout::gemm::RowMajor, PassThrough,
    Tile::tile_m, Tile::tile_n, Tile::warp_m, Tile::warp_n, Tile::warp_tile_m, Tile::warp_tile_n,
    Tile::warp_tile_k, transposed, operation_of(store), wave_groups, fixed, vec_c>>;

template <Store store, class A, class B, class Acc, class C, class Tile>
using PlainStore = ck_tile::DefaultGemm2DEpilogue<ck_tile::DefaultGemm2DEpilogueProblem<
    A, B, ck_tile::tuple<>, Acc, C, ck_tile::tuple<>, ck_tile::tensor_layout::gemm::RowMajor, PassThrough,
    Tile::tile_m, Tile::tile_n, Tile::pad_m, Tile::pad_n, Tile::warp_tile_m, Tile::warp_tile_n,
    Tile::warp_tile_k, false, true, operation_of(store)>>;

template <class Config>
struct CheckedConvTraits {
  static_assert(!Config::explicit_gemm, "a filter of one element as a plain GEMM needs CK Tile of 2026");
  static_assert(!Config::stream_k, "stream-K in convolutions needs CK Tile of 2026");
#if KSCOUT_CK_TILE >= 202511
  using type = ck_tile::GroupedConvTraits<Config::rank, Config::specialization, typename Config::InLayout,
                                          typename Config::WeiLayout, ck_tile::tuple<>,
                                          typename Config::OutLayout, Config::vec_a, Config::vec_b,
                                          Config::vec_c, Config::merged_groups, Config::split_image>;
#else
  static_assert(Config::merged_groups == 1, "merged groups need CK Tile of November 2025");
  static_assert(!Config::split_image, "cut tensors need CK Tile of November 2025");
  using type =
      ck_tile::GroupedConvTraits<Config::rank, Config::specialization, typename Config::InLayout,
                                 typename Config::WeiLayout, ck_tile::tuple<>, typename Config::OutLayout,
                                 Config::vec_a, Config::vec_b, Config::vec_c>;
#endif
};
template <class Config>
using ConvTraitsOf = typename CheckedConvTraits<Config>::type;
using ConvPolicy = ck_tile::UniversalGemmPipelineAgBgCrPolicy;

#endif

#if KSCOUT_CK_TILE >= 202511

template <class ConvTraits>
using FixedParams = typename ConvTraits::FixedGemmParams;
template <class ConvTraits, index_t wave_groups>
using ForwardTraits = typename ConvTraits::template GroupedConvImplicitGemmTraitsFwd<wave_groups>;
template <class ConvTraits, index_t wave_groups>
using BackwardDataTraits = typename ConvTraits::template GroupedConvImplicitGemmTraitsBwdData<wave_groups>;
template <class ConvTraits, index_t wave_groups>
using BackwardWeightTraits =
    typename ConvTraits::template GroupedConvImplicitGemmTraitsBwdWeight<wave_groups>;
using ForwardArgs = ck_tile::GroupedConvFwdHostArgs<>;

#else

/// Members that newer headers keep in their traits.
struct OlderFixedParams {
  static constexpr index_t TilePartitionerGroupNum = 8, TilePartitionerM01 = 4;
  static constexpr bool kPadM = true, kPadN = true, kPadK = true;
  static constexpr bool TransposeC = false, UseStructuredSparsity = false, Persistent = false,
                        FixedVectorSize = true;
};
template <class>
using FixedParams = OlderFixedParams;
template <class ConvTraits, index_t>
using ForwardTraits = typename ConvTraits::GroupedConvImplicitGemmTraitsFwd;
template <class ConvTraits, index_t>
using BackwardDataTraits = typename ConvTraits::GroupedConvImplicitGemmTraitsBwdData;
template <class ConvTraits, index_t>
using BackwardWeightTraits = typename ConvTraits::GroupedConvImplicitGemmTraitsBwdWeight;
using ForwardArgs = ck_tile::GroupedConvFwdHostArgs;

#endif

}  // namespace kscout_ck
