#pragma once
/// \file
/// Verifies convolutions with Freivalds' check: compares weighted row sums of the result with sums computed
/// without it.
///
///     const ConvRows rows(problem);
///     const auto expected = row_sums(problem, operands, rows);
///
/// A convolution is linear in its filter. The weighted sum over a pixel's channels therefore equals the
/// output of one channel whose filter is the weighted sum of all filters. Computing that output takes one
/// pass per filter position over the image that the convolution reads. The gradient of the filter is linear
/// in the input image in the same way.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <kscout/conv_problem.h>

#include "op/reference.h"

namespace kscout {

// ---- Indexes a convolution's tensors: axes as arrays, and which elements are multiplied with each other.
//
//     const ConvGeometry g(problem);
//     const std::int64_t pixel = g.met_input(output_pixel, tap);   // of the input; -1: padding

/// Spatial sizes or coordinates: d, h, w.
using ConvSizes = std::array<std::int64_t, 3>;

inline std::int64_t volume(const ConvSizes& sizes) { return sizes[0] * sizes[1] * sizes[2]; }

/// Calls f(place, index) for every place, in memory order.
template <class F>
void for_each_place(const ConvSizes& sizes, F&& f) {
  std::int64_t index = 0;
  ConvSizes at;
  for (at[0] = 0; at[0] < sizes[0]; ++at[0]) {
    for (at[1] = 0; at[1] < sizes[1]; ++at[1]) {
      for (at[2] = 0; at[2] < sizes[2]; ++at[2]) f(at, index++);
    }
  }
}

/// An image of the problem, input or output. Pixels are numbered in memory order.
struct ConvImage {
  ConvSizes sizes;
  std::int64_t channels;
  bool channels_last;

  std::int64_t pixels() const { return volume(sizes); }
  std::int64_t at(std::int64_t n, std::int64_t channel, std::int64_t pixel) const {
    return channels_last ? (n * pixels() + pixel) * channels + channel
                         : (n * channels + channel) * pixels() + pixel;
  }
  /// Elements from a channel of a pixel to its next channel.
  std::int64_t channel_step() const { return channels_last ? 1 : pixels(); }
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
  /// The input pixel that a tap (a position of the filter) combines with an output pixel; -1 for padding.
  std::int64_t met_input(std::int64_t output, std::int64_t tap) const {
    return met_input(place_of(output, out.sizes), place_of(tap, filter));
  }
  std::int64_t met_input(const ConvSizes& from, const ConvSizes& of_tap) const {
    ConvSizes at;
    for (std::size_t i = 0; i < 3; ++i) {
      at[i] = from[i] * stride[i] - pad[i] + of_tap[i] * dilation[i];
      if (at[i] < 0 || at[i] >= in.sizes[i]) return -1;
    }
    return index_of(at, in.sizes);
  }
  /// The output pixel that a tap combines with an input pixel; -1 when there is none.
  std::int64_t met_output(std::int64_t input, std::int64_t tap) const {
    return met_output(place_of(input, in.sizes), place_of(tap, filter));
  }
  std::int64_t met_output(const ConvSizes& from, const ConvSizes& of_tap) const {
    ConvSizes at;
    for (std::size_t i = 0; i < 3; ++i) {
      const std::int64_t steps = from[i] + pad[i] - of_tap[i] * dilation[i];
      if (steps < 0 || steps % stride[i] != 0 || steps / stride[i] >= out.sizes[i]) return -1;
      at[i] = steps / stride[i];
    }
    return index_of(at, out.sizes);
  }

  static ConvSizes place_of(std::int64_t index, const ConvSizes& sizes) {
    return {index / (sizes[1] * sizes[2]), index / sizes[2] % sizes[1], index % sizes[2]};
  }

  std::int64_t images, groups, c_of_group, k_of_group;
  ConvSizes filter, stride, dilation, pad;
  ConvImage in, out;

 private:
  static std::int64_t index_of(const ConvSizes& at, const ConvSizes& sizes) {
    return (at[0] * sizes[1] + at[1]) * sizes[2] + at[2];
  }
};

/// C as a matrix. For an image, a row is a pixel with its channels; for a filter, a row is an output channel
/// and filter position with its input channels.
struct ConvRows {
  explicit ConvRows(const ConvProblem& problem);

  std::int64_t count() const { return items * view.rows; }
  /// Index into C.
  std::int64_t element(std::int64_t row, std::int64_t column) const {
    return view.at(row / view.rows, row % view.rows, column);
  }

  MatrixView view;
  std::int64_t items;
  std::vector<double> weights;  ///< one per column, 0.5 <= |w| <= 1.5
};

struct RowSum {
  std::int64_t row;
  double value, tolerance;
};

/// Default maximum number of products for the sums of one problem.
inline constexpr double kMaxRowProducts = 1 << 26;

/// The sums of every row, or of as many random rows as `max_products` allows: at least one row or, for a
/// filter, one output channel. Cost: a pass over B and over A, or 16 images of A, plus these products.
std::vector<RowSum> row_sums(const ConvProblem& problem, const GemmOperands& operands, const ConvRows& rows,
                             double max_products = kMaxRowProducts);

// ---- Verifies a convolution's result against float64 sums over the products of its definition.
//
//     const ConvReference reference(problem, operands);
//     if (!(reference.check(operands.c()).error <= 1)) ...
//
// Small problems (up to 2^19 products and elements) are compared element by element. Larger ones by
//  - elements at corners, at the edges of tiles of 8 to 256 and at random positions, each against its own
//    products: 8 to 4,096 elements, 2^20 products together;
//  - Freivalds' check of rows (row_sums): the channels of a pixel, or of a filter position, summed with
//    random weights. The check always finds a single wrong element whose error exceeds its row's tolerance.
//    All rows are checked when that takes at most 2^26 products, else as many random rows as that allows.
//    An element that was never written (operands begin as NaN) shows in every check of its row.
//
// Tolerance per element: that of gemm_reference.h. Kernels may sum the filter's gradient from slices stored
// in its own type. Each stored slice may then be rounded, so the tolerance allows 8 round-offs of the size of
// a sum of products with random signs.

/// Elements of the operands A and B whose products sum to one element of C.
struct ConvProducts {
  std::vector<std::int64_t> a, b;
};

/// The products of an element, by its index in C, without products with padding.
ConvProducts conv_products(const ConvProblem& problem, std::int64_t element);

class ConvReference final : public Reference {
 public:
  /// Reads A and B, which must live as long as their instruments.
  ConvReference(const ConvProblem& problem, const GemmOperands& operands);
  Verification check(const void* c) const override;

 private:
  struct Element {
    double value, tolerance;
  };

  Instruments& device_;
  ConvRows rows_;
  std::vector<std::int64_t> places_;  ///< indices of elements_ in C
  std::vector<Element> elements_;
  std::vector<RowSum> sums_;  ///< empty when every element is compared
};

}  // namespace kscout
