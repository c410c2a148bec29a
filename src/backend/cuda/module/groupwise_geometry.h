#pragma once
/// \file
/// How kernels of provider `groupwise` walk through the images of a convolution: which elements of the image
/// that they read, and of the filter, belong to an element of the image that they compute.
///
///     const Walk rows = walk_of(Direction::backward_data, {.in = 56, .out = 28, .filter = 3, .stride = 2,
///                                                          .dilation = 1, .pad = 1}, 1);
///     // image rows 1, 3, 5, ...: from filter rows 0 and 2
///
/// conv_fwd reads the input image and computes the output image; conv_bwd_data the other way round. With a
/// stride, elements of the input image whose positions differ modulo the stride depend on different elements
/// of the filter. They form classes, which are computed one by one, so no multiplication is by a zero that
/// the stride put there. conv_fwd has one class.
#include <cstdint>
#include <numeric>

namespace kscout::cuda {

enum class Direction : std::int32_t { forward, backward_data, backward_weight };

/// One axis of a convolution, sizes in elements.
struct ConvAxis {
  std::int32_t in, out, filter, stride, dilation, pad;
};

/// Along one axis, of one class: result i is at out_first + i * out_step, for i < count. Its tap t, for
/// t < taps, is filter element first_tap + t * next_tap, and reads the image at base + i * step +
/// t * tap_step, if that is inside `source` elements. tap_step > 0.
struct Walk {
  std::int32_t source;
  std::int32_t count, out_first, out_step;
  std::int32_t base, step, tap_step;
  std::int32_t taps, first_tap, next_tap;
};

/// The largest stride whose classes a kernel's arguments hold.
inline constexpr std::int32_t kMaxClasses = 8;

constexpr std::int32_t classes_of(Direction direction, const ConvAxis& axis) {
  return direction == Direction::backward_data ? axis.stride : 1;
}

/// `residue` is below classes_of().
constexpr Walk walk_of(Direction direction, const ConvAxis& a, std::int32_t residue) {
  if (direction != Direction::backward_data)
    return {a.in, a.out, 0, 1, -a.pad, a.stride, a.dilation, a.filter, 0, 1};
  Walk walk{.source = a.out,
            .count = 0,
            .out_first = residue,
            .out_step = a.stride,
            .base = 0,
            .step = 1,
            .tap_step = 1,
            .taps = 0,
            .first_tap = 0,
            .next_tap = 1};
  if (residue < a.in) walk.count = (a.in - residue + a.stride - 1) / a.stride;
  // Tap t reads output (residue + pad - t * dilation) / stride where that is a whole number.
  const auto distance = [&](std::int32_t tap) { return residue + a.pad - tap * a.dilation; };
  std::int32_t first = 0;
  while (first < a.filter && distance(first) % a.stride != 0) ++first;
  if (first == a.filter) return walk;
  const std::int32_t every = a.stride / std::gcd(a.stride, a.dilation);
  walk.taps = (a.filter - first + every - 1) / every;
  walk.tap_step = every * a.dilation / a.stride;
  const std::int32_t last = first + (walk.taps - 1) * every;
  walk.first_tap = last;
  walk.next_tap = -every;
  walk.base = distance(last) / a.stride;
  return walk;
}

}  // namespace kscout::cuda
