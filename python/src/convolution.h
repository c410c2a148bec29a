#pragma once
/// \file
/// Derives convolutions from arrays whose dimensions stand in PyTorch's order, whatever their order in
/// memory. Nothing is copied.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include <nanobind/nanobind.h>

#include <kscout/backend.h>
#include <kscout/conv_problem.h>

#include "arrays.h"
#include "operands.h"

namespace kscout::python {

/// One number for all spatial axes, or one per axis.
using PerAxis = std::variant<std::int64_t, std::vector<std::int64_t>>;

/// Zeros around the image: one number, one per axis, a pair (before, after) per axis, "valid" or "same".
using Padding = std::variant<std::int64_t, std::vector<std::int64_t>, std::vector<std::vector<std::int64_t>>,
                             std::string>;

/// How the filter moves over the image, and in which order it is in memory.
struct FilterSteps {
  PerAxis stride, dilation;
  Padding padding;  ///< "valid": none; "same": as many zeros as keep the sizes (stride 1)
  std::int64_t groups;
  /// Copies a filter that has its channels not last in memory, for one run; else such a filter is refused.
  bool copy_filter;
  /// conv_fwd: one number for each output channel, which is added to its pixels; null: none.
  const InputArray* bias = nullptr;
};

/// An array and its argument's name.
struct NamedArray {
  const char* name;
  const InputArray* array;
};

/// A filter of any memory order in the host's memory, and its copy with channels last.
class FilterCopy {
 public:
  /// `strides` are in elements, `bytes` those of one element; nothing is copied yet.
  FilterCopy(void* array, std::vector<std::int64_t> shape, std::vector<std::int64_t> strides,
             std::size_t bytes);

  void* data() noexcept { return copy_.data(); }
  void read();         ///< copies from the array
  void write() const;  ///< copies to the array

 private:
  /// Calls use(element of the array, position in the copy), both in bytes.
  template <class Use>
  void for_each_element(Use&& use) const;

  std::byte* array_;
  std::vector<std::int64_t> shape_, strides_;
  std::size_t bytes_;
  std::vector<std::byte> copy_;
};

/// A problem whose arrays a, b and c are tensors in memory order, packed: nhwgc (n, h, w, c), ngchw (n, c, h,
/// w), with d before h in 3-D; the filter (k, y, x, c/g), with z before y. Groups may be a separate
/// dimension.
const ArrayOperands& conv_operands() noexcept;

/// A convolution on arrays, and the array that it computes.
struct ArrayConvolution {
  Problem problem;
  ConvTensors tensors;
  nanobind::object result;
  std::shared_ptr<FilterCopy> filter = {};  ///< null: the filter's array is used as it is

  /// Call it after the run: a filter's gradient goes from the copy to its array.
  void finish() const {
    if (filter && problem.op() == Op::conv_bwd_weight) filter->write();
  }
};

/// The convolution of `axes` spatial axes (1 to 3; 1-D as h = 1) that `direction` computes from two tensors:
/// images (n, c, [[d,] h,] w), the filter (k, c/g, [[z,] y,] x).
///
///   given   the two arrays that are read; the third is null, and `result_shape` has its sizes (forward:
///   empty) out     receives the result; None: a new NumPy array with the images' order in memory
///
/// The layout comes from the images' strides. With steps.copy_filter, a filter of another memory order is
/// copied, and a new gradient of a filter has channels first, as in PyTorch. Throws invalid_argument, naming
/// the array and the remedy, for strides that no layout has, sizes that do not fit, another type or another
/// memory. Without `computes`, no result is made.
ArrayConvolution convolution_of(Op direction, int axes, const OfTensors<NamedArray>& given,
                                std::vector<std::int64_t> result_shape, const FilterSteps& steps,
                                const nanobind::object& out, bool computes = true);

/// One run of a problem whose filter is packed: `image` is the array that it reads, in the shape, memory
/// order, type and memory that the filter was packed for; `out` as above. Throws invalid_argument for other
/// arrays.
ArrayConvolution packed_convolution_of(const Problem& problem, int axes, const MemorySpace& space,
                                       const NamedArray& image, const nanobind::object& out);

}  // namespace kscout::python
