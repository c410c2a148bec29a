#pragma once
/// \file
/// Makes convolutions from tensors with sizes and strides, as frameworks and libraries describe them.
///
///     const StridedConv conv{.in = {{2, 8, 14, 10}, {1120, 140, 10, 1}}, .wei = {{16, 8, 3, 3}, {72, 9, 3, 1}},
///                            .pad = {1, 1}, .stride = {2, 2}, .dilation = {1, 1}};
///     ConvProblem problem = make_conv(Op::conv_fwd, DType::bf16, *layout_of(conv));
///     set_sizes(problem, conv);   // conv_fwd:2x8x14x10:16x3x3:bf16:ngchw:stride=2:pad=1
#include <cstdint>
#include <optional>
#include <vector>

#include <kscout/conv_problem.h>

namespace kscout {

using TensorSizes = std::vector<std::int64_t>;

/// A tensor along images (of a filter: output channels), channels, and 2 or 3 axes of space, in elements.
struct StridedTensor {
  TensorSizes sizes, strides;
};

/// A convolution. What is not known is empty: the output, the strides of a tensor, the zeros behind each axis
/// where they are those before it.
struct StridedConv {
  StridedTensor in, wei, out = {};
  TensorSizes pad = {}, stride = {}, dilation = {};  ///< per axis of space
  TensorSizes right_pad = {};
  std::int64_t groups = 1;
};

/// The layout in which every tensor with strides is dense; nothing when there is none. Where both layouts
/// fit, as for one channel, channels are last.
std::optional<Layout> layout_of(const StridedConv& conv);

/// Sets all sizes. Throws invalid_argument when they contradict each other or check() refuses them.
void set_sizes(ConvProblem& problem, const StridedConv& conv);

}  // namespace kscout
