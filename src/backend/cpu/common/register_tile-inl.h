#pragma once
// The register tile that GEMMs and convolutions share: Rows x Vectors accumulators. Include outside of any
// namespace.
#include "backend/cpu/common/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kscout::cpu::HWY_NAMESPACE {

template <int Rows, int Vectors>
HWY_INLINE void clear(V (&sum)[Rows][Vectors]) {
  KSCOUT_FULL_UNROLL for (int i = 0; i < Rows; ++i) {
    KSCOUT_FULL_UNROLL for (int j = 0; j < Vectors; ++j) sum[i][j] = hn::Zero(d);
  }
}

/// Adds the outer product of a column, column(i) in all lanes, and a row of vectors, row(j).
template <int Rows, int Vectors, class Column, class Row>
HWY_INLINE void add_outer_product(V (&sum)[Rows][Vectors], const Column& column, const Row& row) {
  // Keeps the shorter side of the tile in registers: it fits beside 12 accumulators (28 with AVX-512).
  if constexpr (Rows < Vectors) {
    V elements[Rows];
    KSCOUT_FULL_UNROLL for (int i = 0; i < Rows; ++i) elements[i] = column(i);
    KSCOUT_FULL_UNROLL for (int j = 0; j < Vectors; ++j) {
      const V vector = row(j);
      KSCOUT_FULL_UNROLL for (int i = 0; i < Rows; ++i) sum[i][j] =
          hn::MulAdd(elements[i], vector, sum[i][j]);
    }
  } else {
    V vectors[Vectors];
    KSCOUT_FULL_UNROLL for (int j = 0; j < Vectors; ++j) vectors[j] = row(j);
    KSCOUT_FULL_UNROLL for (int i = 0; i < Rows; ++i) {
      const V element = column(i);
      KSCOUT_FULL_UNROLL for (int j = 0; j < Vectors; ++j) sum[i][j] =
          hn::MulAdd(element, vectors[j], sum[i][j]);
    }
  }
}

/// Stores row i at row_of_c(i). `masked`: of the last vector only the lanes of `last`. result(sum, load)
/// computes what is stored; load() reads what is there.
template <int Rows, int Vectors, class RowOfC, class Result>
HWY_INLINE void store_tile(const V (&sum)[Rows][Vectors], const RowOfC& row_of_c, bool masked,
                           const Lanes& last, const Result& result) {
  KSCOUT_FULL_UNROLL for (int i = 0; i < Rows; ++i) {
    float* const row = row_of_c(i);
    KSCOUT_FULL_UNROLL for (int j = 0; j < Vectors; ++j) {
      float* const to = row + j * kLanes;
      if (masked && j == Vectors - 1) {
        last.store(result(sum[i][j], [&]() HWY_ATTR { return last.load(to); }), to);
      } else {
        hn::StoreU(result(sum[i][j], [&]() HWY_ATTR { return hn::LoadU(d, to); }), d, to);
      }
    }
  }
}

}  // namespace kscout::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
