#pragma once
/// \file
/// A convolution's axes as arrays, and which elements of its tensors meet.
///
///     const ConvGeometry g(problem);
///     const std::int64_t pixel = g.met_input(output_pixel, tap);   // of the input; -1: padding
#include <array>
#include <cstdint>

#include <kscout/conv_problem.h>

namespace kscout {

/// Spatial sizes or places: d, h, w.
using ConvSizes = std::array<std::int64_t, 3>;

inline std::int64_t volume(const ConvSizes& sizes) { return sizes[0] * sizes[1] * sizes[2]; }

/// An image of the problem, in or out. Its pixels count in the order of memory.
struct ConvImage {
  ConvSizes sizes;
  std::int64_t channels;
  bool channels_last;

  std::int64_t pixels() const { return volume(sizes); }
  std::int64_t at(std::int64_t n, std::int64_t channel, std::int64_t pixel) const {
    return channels_last ? (n * pixels() + pixel) * channels + channel
                         : (n * channels + channel) * pixels() + pixel;
  }
  struct Place {
    std::int64_t n, channel, pixel;
  };
  Place place(std::int64_t index) const {
    const std::int64_t image = pixels() * channels;
    if (channels_last) return {index / image, index % channels, index / channels % pixels()};
    return {index / image, index / pixels() % channels, index % pixels()};
  }
};

struct ConvGeometry {
  explicit ConvGeometry(const ConvProblem& p)
      : images(p.n),
        groups(p.g),
        c_of_group(p.c / p.g),
        k_of_group(p.k / p.g),
        filter{p.z, p.y, p.x},
        stride{p.stride_d, p.stride_h, p.stride_w},
        dilation{p.dilation_d, p.dilation_h, p.dilation_w},
        pad{p.left_pad_d, p.left_pad_h, p.left_pad_w} {
    const bool last = p.layout == Layout::nhwgc || p.layout == Layout::ndhwgc;
    const ConvOutput o = output_sizes(p);
    in = {{p.d, p.h, p.w}, p.c, last};
    out = {{o.d, o.h, o.w}, p.k, last};
  }

  std::int64_t taps() const { return volume(filter); }
  std::int64_t weight(std::int64_t k, std::int64_t tap, std::int64_t c) const {
    return (k * taps() + tap) * c_of_group + c;
  }
  /// The pixel of the input that an output pixel meets under a tap of the filter; -1 when that is padding.
  std::int64_t met_input(std::int64_t output, std::int64_t tap) const {
    const ConvSizes from = place_of(output, out.sizes), of_tap = place_of(tap, filter);
    ConvSizes at;
    for (std::size_t i = 0; i < 3; ++i) {
      at[i] = from[i] * stride[i] - pad[i] + of_tap[i] * dilation[i];
      if (at[i] < 0 || at[i] >= in.sizes[i]) return -1;
    }
    return index_of(at, in.sizes);
  }
  /// The pixel of the output that meets an input pixel under a tap; -1 when there is none.
  std::int64_t met_output(std::int64_t input, std::int64_t tap) const {
    const ConvSizes from = place_of(input, in.sizes), of_tap = place_of(tap, filter);
    ConvSizes at;
    for (std::size_t i = 0; i < 3; ++i) {
      const std::int64_t steps = from[i] + pad[i] - of_tap[i] * dilation[i];
      if (steps < 0 || steps % stride[i] != 0 || steps / stride[i] >= out.sizes[i]) return -1;
      at[i] = steps / stride[i];
    }
    return index_of(at, out.sizes);
  }

  std::int64_t images, groups, c_of_group, k_of_group;
  ConvSizes filter, stride, dilation, pad;
  ConvImage in, out;

 private:
  static std::int64_t index_of(const ConvSizes& at, const ConvSizes& sizes) {
    return (at[0] * sizes[1] + at[1]) * sizes[2] + at[2];
  }
  static ConvSizes place_of(std::int64_t index, const ConvSizes& sizes) {
    return {index / (sizes[1] * sizes[2]), index / sizes[2] % sizes[1], index % sizes[2]};
  }
};

}  // namespace kscout
