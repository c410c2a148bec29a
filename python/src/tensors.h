#pragma once
/// \file
/// Reads arrays as the tensors of a convolution. Nothing is copied.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <kscout/backend.h>
#include <kscout/conv_problem.h>

#include "arrays.h"

namespace kscout::python {

/// A tensor of a convolution, or its gradient.
enum class Tensor : std::uint8_t { input, filter, output };

/// The tensors that a direction reads, and the one that it computes.
OfOperands<Tensor> tensor_order(Op direction) noexcept;

/// Sizes of a tensor's array, in memory order, with the channels of all groups together: nhwgc (n, h, w, c),
/// ngchw (n, c, h, w), with d before h in 3-D; the filter (k, y, x, c/g), with z before y.
std::vector<std::int64_t> tensor_shape(const ConvProblem& problem, Tensor tensor);

/// Throws invalid_argument, naming the array, unless it is in this memory and matches the problem: type,
/// sizes (groups may be a separate dimension), packed in the order of its dimensions.
void check_tensor(const ConvProblem& problem, std::string_view name, Tensor tensor, const MemorySpace& where,
                  const InputArray& array);

/// "(2, 3)".
std::string sizes_text(const std::vector<std::int64_t>& sizes);

/// NumPy's name of C's element type. Throws invalid_argument for a type that NumPy does not have.
const char* numpy_type(ProblemRef problem);

/// Converts three checked arrays, in the order of the operands.
ConvTensors conv_tensors(Op direction, const void* a, const void* b, void* c) noexcept;

}  // namespace kscout::python
