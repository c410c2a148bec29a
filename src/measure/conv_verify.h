#pragma once
/// \file
/// Freivalds' check of a convolution: weighted sums over the rows of its result, computed without the result.
///
///     const ConvRows rows(problem);
///     const auto expected = row_sums(problem, operands, rows);
///
/// A convolution is linear in its filter. The sum over the channels of a pixel, each times a weight, is thus
/// what one channel gives whose filter is the weighted sum of all filters: a pass over the read image times
/// the filter's places. The gradient of the filter is linear in the input image in the same way.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <kscout/conv_problem.h>

#include "measure/operands.h"
#include "measure/verify.h"

namespace kscout {

// ---- A convolution's axes as arrays, and which elements of its tensors meet.
//
//     const ConvGeometry g(problem);
//     const std::int64_t pixel = g.met_input(output_pixel, tap);   // of the input; -1: padding

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

/// C as a matrix: of an image a row per pixel with its channels, of a filter a row per output channel and
/// place with its input channels.
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

/// Products that the sums of one problem may take.
inline constexpr double kMaxRowProducts = 1 << 28;

/// Those of every row, or of as many as so many products pay, drawn at random: at least one row or, of a
/// filter, one output channel. Cost: a pass over A and B, and those products.
std::vector<RowSum> row_sums(const ConvProblem& problem, const GemmOperands& operands, const ConvRows& rows,
                             double max_products = kMaxRowProducts);

// ---- Is a convolution's result right? Compares it with float64 sums over the products of its definition.
//
//     const ConvReference reference(problem, operands);
//     if (!(reference.check(operands.c()).error <= 1)) ...
//
// Small problems (up to 2^19 products and elements) are compared element by element. Larger ones by
//  - elements at corners, at the edges of tiles of 8 to 256 and at random places, each against its own
//    products: 8 to 4,096 of them, 2^20 products together;
//  - Freivalds' check of rows (conv_row_sums.h): the channels of a pixel, or of a place of a filter, added
//    up with random weights. One wrong element always shows when it is wrong by more than its
//    row's tolerance. All rows are checked when that takes at most 2^28 products, else as many as these pay,
//    drawn at random. An element that was never written (operands begin as NaN) shows in any row.
//
// Tolerance per element: that of verify.h. The filter's gradient may be added up from parts in its own type:
// there each stored part may be rounded, which allows 8 round-offs of the size that a sum of products with
// random signs has.

/// Elements of the operands A and B whose products add up to one element of C.
struct ConvProducts {
  std::vector<std::int64_t> a, b;
};

/// Those of an element, by its index in C. Products with padding are left out.
ConvProducts conv_products(const ConvProblem& problem, std::int64_t element);

class ConvReference final : public Reference {
 public:
  /// Reads A and B, which must live as long as their instruments do.
  ConvReference(const ConvProblem& problem, const GemmOperands& operands);
  Verification check(const void* c) const override;

 private:
  struct Element {
    double value, tolerance;
  };

  Instruments& device_;
  ConvRows rows_;
  std::vector<std::int64_t> places_;  ///< of elements_, as indices into C
  std::vector<Element> elements_;
  std::vector<RowSum> sums_;  ///< none when every element is compared
};

}  // namespace kscout
