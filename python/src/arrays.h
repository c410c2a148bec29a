#pragma once
/// \file
/// Arrays of NumPy or of anything that speaks DLPack, as operands of a problem. Nothing is copied.
#include <cstdint>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <kscout/memory_space.h>
#include <kscout/problem.h>

namespace kscout::python {

using InputArray = nanobind::ndarray<nanobind::ro>;
using OutputArray = nanobind::ndarray<>;

/// One array of two dimensions, or of three when the problem is batched, as it lies in memory.
struct Operand {
  char name;  ///< 'a', 'b' or 'c', for messages
  MemorySpace space;
  DType dtype;
  std::int64_t batch, rows, columns;
  std::int64_t batch_stride, row_stride, column_stride;  ///< elements
};

/// Where an array is. Throws invalid_argument naming the array when it is neither in the host's memory nor in
/// that of a GPU under CUDA or ROCm.
MemorySpace space_of(char name, const InputArray& array);

/// The type of an array's elements. Throws invalid_argument naming the array when it is of a type without a
/// DType.
DType element_type(char name, const InputArray& array);

/// Throws invalid_argument naming the array when space_of or element_type do, or when it is not of 2 or 3
/// dimensions.
Operand operand_of(char name, const InputArray& array);

/// The problem that C = A * B is, with its layout and leading dimensions from the arrays' strides. `c` is
/// null when the result will be a new, packed array. Throws invalid_argument for sizes that do not fit or
/// strides that no layout has.
GemmProblem problem_of_operands(const Operand& a, const Operand& b, const Operand* c);

/// Throws invalid_argument unless the arrays are in one memory and what the problem states: types, sizes,
/// layout, leading dimensions.
void check_operands(const GemmProblem& problem, const Operand& a, const Operand& b, const Operand& c);

}  // namespace kscout::python
