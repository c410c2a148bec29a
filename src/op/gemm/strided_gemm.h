#pragma once
/// \file
/// Makes GEMMs from matrices with a stride per axis, as frameworks describe them.
///
///     GemmProblem p = make_gemm(0, 0, 0, DType::bf16);
///     set_matrices(p, {32, 48, 48, 1}, {48, 96, 1, 48});   // gemm:32x96x48:bf16:rcr
#include <cstdint>

#include <kscout/problem.h>

namespace kscout {

/// Sizes, and the elements between neighbouring rows and between neighbouring columns.
struct StridedMatrix {
  std::int64_t rows = 0, columns = 0, row_stride = 0, column_stride = 0;

  StridedMatrix transposed() const noexcept { return {columns, rows, column_stride, row_stride}; }
  static StridedMatrix row_major(std::int64_t rows, std::int64_t columns) noexcept {
    return {rows, columns, columns, 1};
  }
};

/// Sets sizes, layout and leading dimensions of a product with a row-major C, whose rows are `ldc` elements
/// apart (0: packed). An operand that is neither row-major nor column-major counts as packed row-major: its
/// user has to copy it. Throws invalid_argument when the sizes contradict each other or check() refuses them.
void set_matrices(GemmProblem& problem, const StridedMatrix& a, const StridedMatrix& b, std::int64_t ldc = 0);

}  // namespace kscout
