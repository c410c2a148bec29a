#pragma once
/// \file
/// Reads arrays as the matrices of a GEMM, whatever their order in memory. Nothing is copied.
#include <nanobind/nanobind.h>

#include <kscout/any_problem.h>

#include "arrays.h"
#include "operands.h"

namespace kscout::python {

/// A problem whose arrays are matrices (rows, columns), or batches of them, with the problem's layout and
/// leading dimensions as strides.
const ArrayOperands& gemm_operands() noexcept;

/// The array b of a GEMM, as operands with b alone. Throws invalid_argument for one that does not match the
/// problem.
GemmBuffers operand_b(const Problem& problem, const InputArray& b);

/// A product of arrays, and the arrays that its kernel computes with.
struct ArrayProduct {
  Problem problem;
  ArrayCall call;
  Sizes result_shape;  ///< of the caller's result
  bool joined;         ///< a batch times one matrix, computed as one product of all rows

  /// The result as the kernel sees it. Throws as with_joined_rows of gemm.cpp.
  OutputArray result(const OutputArray& c) const;
};

/// The product a @ b of two matrices, two batches of matrices, or a batch and one matrix: sizes and types of
/// the arrays, layout and leading dimensions from their strides. Throws invalid_argument for sizes that do
/// not match or strides that no layout has.
ArrayProduct product_of_arrays(const ArrayCall& call);

}  // namespace kscout::python
