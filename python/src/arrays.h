#pragma once
/// \file
/// Reads arrays of NumPy, or of any package that supports DLPack. Nothing is copied.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <kscout/any_problem.h>
#include <kscout/memory_space.h>

namespace kscout::python {

using InputArray = nanobind::ndarray<nanobind::ro>;
using OutputArray = nanobind::ndarray<>;

/// Sizes or strides of an array, in elements.
using Sizes = std::vector<std::int64_t>;

/// The memory of an array. Throws invalid_argument, naming the array, for memory that is neither host memory
/// nor that of a GPU under CUDA or ROCm.
MemorySpace space_of(std::string_view name, const InputArray& array);

/// The array for a result. Throws TypeError, naming it, when it cannot be written to.
OutputArray writable(std::string_view name, const nanobind::object& array);

/// The type of an array's elements. Throws invalid_argument, naming the array, for a type without a DType.
DType element_type(std::string_view name, const InputArray& array);

/// The remedy for an array of another type than `dtype`, for the end of a message: ": convert to float32".
std::string convert_to(DType dtype);

Sizes shape_of(const InputArray& array);
Sizes strides_of(const InputArray& array);

/// Whether the elements follow each other in the order of the dimensions. The stride of a dimension of one
/// element means nothing.
bool is_packed(const InputArray& array);

/// "(2, 3)", as Python prints a shape.
std::string sizes_text(const Sizes& sizes);

/// NumPy's name of the type of the problem's result. Throws invalid_argument for a type that NumPy does not
/// have.
const char* numpy_type(ProblemRef problem);

}  // namespace kscout::python
