// Implements the outer-product kernels of one target. Each is a register tile of Rows x Vectors accumulators.
#include "backend/cpu/common/register_tile-inl.h"
#include "backend/cpu/gemm/gemm_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace kscout::cpu::HWY_NAMESPACE {

template <int Rows, int Vectors, ReadA Read, Variant How>
void outer(const OuterArgs& args) {
  constexpr bool masked = How == Variant::masked;
  const float* HWY_RESTRICT a = args.a;
  const float* HWY_RESTRICT b = args.b;
  const std::int64_t a_step = args.a_step, b_step = args.b_step;
  const Lanes last(masked ? args.last : kLanes);

  float* HWY_RESTRICT c = args.c;
  if constexpr (!masked) {
    KSCOUT_FULL_UNROLL for (int i = 0; i < Rows; ++i) {
      hwy::Prefetch(c + i * args.ldc);
      if constexpr (Vectors * kLanes > 16) hwy::Prefetch(c + i * args.ldc + Vectors * kLanes - 1);
    }
  }

  V sum[Rows][Vectors];
  clear(sum);
  KSCOUT_UNROLL_4 for (std::int64_t k = 0; k < args.k; ++k) {
    if constexpr (How == Variant::prefetching) {
      const float* ahead = b + args.prefetch * b_step;
      KSCOUT_FULL_UNROLL for (int j = 0; j < Vectors * kLanes; j += 16) hwy::Prefetch(ahead + j);
    }
    add_outer_product(
        sum, [&](int i) HWY_ATTR { return hn::Set(d, Read == ReadA::rows ? a[i * a_step + k] : a[i]); },
        [&](int j) HWY_ATTR {
          return masked && j == Vectors - 1 ? last.load(b + j * kLanes) : hn::LoadU(d, b + j * kLanes);
        });
    if constexpr (Read == ReadA::columns) a += a_step;
    b += b_step;
  }

  const V alpha = hn::Set(d, args.alpha);
  const V beta = hn::Set(d, args.beta);
  const bool reads_c = args.beta != 0;
  store_tile(
      sum, [&](int i) HWY_ATTR { return c + i * args.ldc; }, masked, last,
      [&](V v, const auto& of_c) HWY_ATTR {
        v = hn::Mul(alpha, v);
        return reads_c ? hn::MulAdd(beta, of_c(), v) : v;
      });
}

template <int Rows, int Vectors>
void fill_outer_tile(GemmKernels& set) {
  const auto fill = [&](ReadA read, OuterKernel plain, OuterKernel prefetching, OuterKernel masked) {
    auto& table = set.outer[static_cast<int>(read)];
    table[static_cast<int>(Variant::plain)][Rows][Vectors] = plain;
    table[static_cast<int>(Variant::prefetching)][Rows][Vectors] = prefetching;
    table[static_cast<int>(Variant::masked)][Rows][Vectors] = masked;
  };
  fill(ReadA::columns, outer<Rows, Vectors, ReadA::columns, Variant::plain>,
       outer<Rows, Vectors, ReadA::columns, Variant::prefetching>,
       outer<Rows, Vectors, ReadA::columns, Variant::masked>);
  fill(ReadA::rows, outer<Rows, Vectors, ReadA::rows, Variant::plain>,
       outer<Rows, Vectors, ReadA::rows, Variant::prefetching>,
       outer<Rows, Vectors, ReadA::rows, Variant::masked>);
}

/// Fills tiles of 1 to MostRows rows: the config's tile, and every shorter one for the edge of C.
template <int MostRows, int Vectors>
void fill_outer_rows(GemmKernels& set) {
  fill_outer_tile<MostRows, Vectors>(set);
  if constexpr (MostRows > 1) fill_outer_rows<MostRows - 1, Vectors>(set);
}

template <NativeIsa Isa>
void fill_outer(GemmKernels& set) {
  constexpr RegisterTiles tiles = register_tiles(Isa);
  fill_outer_rows<tiles.rows[0], 1>(set);
  fill_outer_rows<tiles.rows[1], 2>(set);
  fill_outer_rows<tiles.rows[2], 3>(set);
  fill_outer_rows<tiles.rows[3], 4>(set);
}

}  // namespace kscout::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
