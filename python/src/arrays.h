#pragma once
/// \file
/// Reads arrays of NumPy, or of any package that supports DLPack, as operands of a problem. Nothing is
/// copied.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <kscout/memory_space.h>
#include <kscout/problem.h>

namespace kscout::python {

using InputArray = nanobind::ndarray<nanobind::ro>;
using OutputArray = nanobind::ndarray<>;

/// An array of two dimensions, or of three when the problem is batched, with its strides.
struct Operand {
  std::string_view name;  ///< "a", "b" or "c", for messages
  MemorySpace space;
  DType dtype;
  std::int64_t batch, rows, columns;
  std::int64_t batch_stride, row_stride, column_stride;  ///< elements
};

/// The memory of an array. Throws invalid_argument, naming the array, for memory that is neither host memory
/// nor that of a GPU under CUDA or ROCm.
MemorySpace space_of(std::string_view name, const InputArray& array);

/// The array for a result. Throws TypeError, naming it, when it cannot be written to.
OutputArray writable(std::string_view name, const nanobind::object& array);

/// The type of an array's elements. Throws invalid_argument, naming the array, for a type without a DType.
DType element_type(std::string_view name, const InputArray& array);

/// The remedy for an array of another type than `dtype`, for the end of a message: ": convert to float32".
std::string convert_to(DType dtype);

/// The strides of all rows of an array of three dimensions as one matrix; throws as with_joined_rows.
std::array<std::int64_t, 2> joined_row_strides(std::string_view name, const InputArray& array);

/// Throws as space_of and element_type, and invalid_argument, naming the array, unless it has 2 or 3
/// dimensions.
Operand operand_of(std::string_view name, const InputArray& array);

/// A view of an array (batch, rows, columns) as one matrix of all rows. Throws invalid_argument, naming the
/// array, when the rows of all matrices are not equally far apart.
template <class Array>
Array with_joined_rows(std::string_view name, const Array& array) {
  const std::array<std::int64_t, 2> strides = joined_row_strides(name, InputArray(array));
  const std::array<std::size_t, 2> shape = {array.shape(0) * array.shape(1), array.shape(2)};
  return Array(array.data(), shape.size(), shape.data(), nanobind::handle(), strides.data(), array.dtype(),
               array.device_type(), array.device_id());
}

/// The problem C = A * B, with layout and leading dimensions from the arrays' strides. `c` is null when the
/// result will be a new, packed array. Throws invalid_argument for sizes that do not match or strides that no
/// layout has.
GemmProblem problem_of_operands(const Operand& a, const Operand& b, const Operand* c);

/// Throws invalid_argument unless all arrays are in the same memory and match the problem: types, sizes,
/// layout, leading dimensions.
void check_operands(const GemmProblem& problem, const Operand& a, const Operand& b, const Operand& c);

}  // namespace kscout::python
