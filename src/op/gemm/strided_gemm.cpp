#include "op/gemm/strided_gemm.h"

#include "core/fail.h"
#include "op/gemm/tunableop.h"

namespace kscout {

namespace {

/// How an operand lies in memory.
struct Storage {
  bool row_major = true;
  std::int64_t leading = 0;  ///< 0: packed
};

Storage storage_of(const StridedMatrix& matrix) {
  const auto [rows, columns, row_stride, column_stride] = matrix;
  if (column_stride == 1 && row_stride >= columns) return {true, row_stride};
  if (row_stride == 1 && column_stride >= rows) return {false, column_stride};
  // The stride of an axis with one element means nothing.
  if (rows == 1 && column_stride == 1) return {true, 0};
  if (columns == 1 && row_stride == 1) return {false, 0};
  return {};
}

}  // namespace

void set_matrices(GemmProblem& p, const StridedMatrix& a, const StridedMatrix& b, std::int64_t ldc) {
  if (a.columns != b.rows)
    fail(Errc::invalid_argument, "a product of {}x{} and {}x{}: the inner sizes differ", a.rows, a.columns,
         b.rows, b.columns);
  p.m = a.rows;
  p.n = b.columns;
  p.k = a.columns;
  const Storage in_a = storage_of(a), in_b = storage_of(b);
  // Of the library's column-major product, our B is the first operand.
  p.layout = tunableop_layout(!in_b.row_major, !in_a.row_major);
  p.lda = in_a.leading;
  p.ldb = in_b.leading;
  p.ldc = ldc;
  check(p);
  p = without_packed_dimensions(p);
}

}  // namespace kscout
