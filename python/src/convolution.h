#pragma once
/// \file
/// Derives convolutions from arrays whose dimensions stand in PyTorch's order, whatever their order in
/// memory. Nothing is copied.
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include <nanobind/nanobind.h>

#include <kscout/backend.h>
#include <kscout/conv_problem.h>

#include "arrays.h"

namespace kscout::python {

/// One number for all spatial axes, or one per axis.
using PerAxis = std::variant<std::int64_t, std::vector<std::int64_t>>;

/// How the filter moves over the image.
struct FilterSteps {
  PerAxis stride, dilation;
  /// Zeros on both sides; "valid": none; "same": as many as keep the sizes (stride 1).
  std::variant<std::int64_t, std::vector<std::int64_t>, std::string> padding;
  std::int64_t groups;
};

/// An array and its argument's name.
struct NamedArray {
  const char* name;
  const InputArray* array;
};

/// A convolution on arrays, and the array that it computes.
struct ArrayConvolution {
  ConvProblem problem;
  ConvTensors tensors;
  nanobind::object result;
};

/// The convolution of `axes` spatial axes (1 to 3; 1-D as h = 1) that `direction` computes from two tensors:
/// images (n, c, [[d,] h,] w), the filter (k, c/g, [[z,] y,] x).
///
///   given   the two arrays that are read; the third is null, and `result_shape` has its sizes (forward:
///   empty) out     receives the result; None: a new NumPy array with the images' order in memory
///
/// The layout comes from the images' strides. Throws invalid_argument, naming the array and the remedy, for
/// strides that no layout has, sizes that do not fit, another type or another memory. Without `computes`, no
/// result is made.
ArrayConvolution convolution_of(Op direction, int axes, const OfTensors<NamedArray>& given,
                                std::vector<std::int64_t> result_shape, const FilterSteps& steps,
                                const nanobind::object& out, bool computes = true);

/// One run of a problem whose filter is packed: `image` is the array that it reads, in the shape, memory
/// order, type and memory that the filter was packed for; `out` as above. Throws invalid_argument for other
/// arrays.
ArrayConvolution packed_convolution_of(const ConvProblem& problem, int axes, const MemorySpace& space,
                                       const NamedArray& image, const nanobind::object& out);

}  // namespace kscout::python
