#include "op/conv/strided_conv.h"

#include <algorithm>
#include <initializer_list>

#include <fmt/ranges.h>

#include "core/fail.h"

namespace kscout {

namespace {

/// Whether a dense tensor has its axes in this order, outermost first. Axes of one element are anywhere.
bool lies_in_order(const StridedTensor& tensor, const std::vector<std::size_t>& order) {
  if (tensor.strides.empty()) return true;
  if (tensor.sizes.size() != order.size() || tensor.strides.size() != order.size()) return false;
  std::int64_t step = 1;
  for (auto axis = order.rbegin(); axis != order.rend(); ++axis) {
    if (tensor.sizes[*axis] != 1 && tensor.strides[*axis] != step) return false;
    if (__builtin_mul_overflow(step, tensor.sizes[*axis], &step)) return false;
  }
  return true;
}

/// Sets depth (where there is one), height and width.
void set_axes(const TensorSizes& values, std::int64_t& d, std::int64_t& h, std::int64_t& w) {
  if (values.size() == 3) d = values[0];
  h = values[values.size() - 2];
  w = values[values.size() - 1];
}

TensorSizes space_of(const StridedTensor& tensor) { return {tensor.sizes.begin() + 2, tensor.sizes.end()}; }

[[noreturn]] void refuse(const StridedConv& conv) {
  fail(Errc::invalid_argument, "an input of {}, a filter of {} and an output of {} are no convolution",
       fmt::join(conv.in.sizes, "x"), fmt::join(conv.wei.sizes, "x"), fmt::join(conv.out.sizes, "x"));
}

}  // namespace

std::optional<Layout> layout_of(const StridedConv& conv) {
  const std::size_t axes = conv.in.sizes.size();
  if (axes != 4 && axes != 5) return std::nullopt;
  std::vector<std::size_t> channels_first(axes);
  for (std::size_t axis = 0; axis < axes; ++axis) channels_first[axis] = axis;
  std::vector<std::size_t> channels_last = channels_first;
  std::rotate(channels_last.begin() + 1, channels_last.begin() + 2, channels_last.end());
  const auto all_lie = [&](const auto& order) {
    return lies_in_order(conv.in, order) && lies_in_order(conv.wei, order) && lies_in_order(conv.out, order);
  };
  if (all_lie(channels_last)) return axes == 5 ? Layout::ndhwgc : Layout::nhwgc;
  if (all_lie(channels_first)) return axes == 5 ? Layout::ngcdhw : Layout::ngchw;
  return std::nullopt;
}

void set_sizes(ConvProblem& p, const StridedConv& conv) {
  const auto& [in, wei, out, pad, stride, dilation, given_right_pad, groups] = conv;
  const TensorSizes& right_pad = given_right_pad.empty() ? pad : given_right_pad;
  const std::size_t axes = in.sizes.size();
  const auto of_space = [&](const TensorSizes& one) { return one.size() + 2 == axes; };
  if ((axes != 4 && axes != 5) || wei.sizes.size() != axes || groups < 1 ||
      !(of_space(pad) && of_space(right_pad) && of_space(stride) && of_space(dilation)))
    refuse(conv);
  p.n = in.sizes[0];
  p.c = in.sizes[1];
  p.k = wei.sizes[0];
  p.g = groups;
  set_axes(space_of(in), p.d, p.h, p.w);
  set_axes(space_of(wei), p.z, p.y, p.x);
  set_axes(stride, p.stride_d, p.stride_h, p.stride_w);
  set_axes(dilation, p.dilation_d, p.dilation_h, p.dilation_w);
  set_axes(pad, p.left_pad_d, p.left_pad_h, p.left_pad_w);
  set_axes(right_pad, p.right_pad_d, p.right_pad_h, p.right_pad_w);
  check(p);
  if (wei.sizes[1] != p.c / groups) refuse(conv);
  if (out.sizes.empty()) return;
  const ConvOutput own = output_sizes(p);
  TensorSizes expected{p.n, p.k, own.h, own.w};
  if (axes == 5) expected.insert(expected.begin() + 2, own.d);
  if (out.sizes != expected) refuse(conv);
}

}  // namespace kscout
