#include "measure/conv_reference.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "measure/tolerance.h"

namespace kscout {

namespace {

constexpr double kMostProducts = 1 << 19;   // up to here every element is compared
constexpr double kDrawnProducts = 1 << 21;  // of the elements that are drawn, all together
constexpr double kLeastDrawn = 16, kMostDrawn = 256;
constexpr double kPartsSlack = 8;  // of sums that may be stored in parts

using Sizes = std::array<std::int64_t, 3>;

std::int64_t volume(const Sizes& sizes) { return sizes[0] * sizes[1] * sizes[2]; }
std::int64_t index_of(const Sizes& at, const Sizes& sizes) {
  return (at[0] * sizes[1] + at[1]) * sizes[2] + at[2];
}
Sizes place_of(std::int64_t index, const Sizes& sizes) {
  return {index / (sizes[1] * sizes[2]), index / sizes[2] % sizes[1], index % sizes[2]};
}

/// An image of the problem, in or out.
struct Image {
  Sizes sizes;
  std::int64_t channels;
  bool channels_last;

  std::int64_t at(std::int64_t n, std::int64_t channel, std::int64_t pixel) const {
    return channels_last ? (n * volume(sizes) + pixel) * channels + channel
                         : (n * channels + channel) * volume(sizes) + pixel;
  }
  struct Place {
    std::int64_t n, channel, pixel;
  };
  Place place(std::int64_t index) const {
    const std::int64_t pixels = volume(sizes);
    if (channels_last) return {index / (pixels * channels), index % channels, index / channels % pixels};
    return {index / (pixels * channels), index / pixels % channels, index % pixels};
  }
};

/// The problem with its axes as arrays.
struct Geometry {
  explicit Geometry(const ConvProblem& p)
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

  std::int64_t weight(std::int64_t k, std::int64_t tap, std::int64_t c) const {
    return (k * volume(filter) + tap) * c_of_group + c;
  }
  /// The pixel of the input that an output pixel meets under a tap; -1 when that is padding.
  std::int64_t met_input(const Sizes& output, const Sizes& tap) const {
    Sizes at;
    for (std::size_t i = 0; i < 3; ++i) {
      at[i] = output[i] * stride[i] - pad[i] + tap[i] * dilation[i];
      if (at[i] < 0 || at[i] >= in.sizes[i]) return -1;
    }
    return index_of(at, in.sizes);
  }
  /// The pixel of the output that meets an input pixel under a tap; -1 when there is none.
  std::int64_t met_output(const Sizes& input, const Sizes& tap) const {
    Sizes at;
    for (std::size_t i = 0; i < 3; ++i) {
      const std::int64_t steps = input[i] + pad[i] - tap[i] * dilation[i];
      if (steps < 0 || steps % stride[i] != 0 || steps / stride[i] >= out.sizes[i]) return -1;
      at[i] = steps / stride[i];
    }
    return index_of(at, out.sizes);
  }

  std::int64_t images, groups, c_of_group, k_of_group;
  Sizes filter, stride, dilation, pad;
  Image in, out;
};

ConvProducts of_output(const Geometry& g, std::int64_t element) {
  ConvProducts products;
  const auto [n, k, pixel] = g.out.place(element);
  const Sizes output = place_of(pixel, g.out.sizes);
  const std::int64_t first_c = k / g.k_of_group * g.c_of_group;
  for (std::int64_t tap = 0; tap < volume(g.filter); ++tap) {
    const std::int64_t met = g.met_input(output, place_of(tap, g.filter));
    for (std::int64_t c = 0; met >= 0 && c < g.c_of_group; ++c) {
      products.a.push_back(g.in.at(n, first_c + c, met));
      products.b.push_back(g.weight(k, tap, c));
    }
  }
  return products;
}

ConvProducts of_input(const Geometry& g, std::int64_t element) {
  ConvProducts products;
  const auto [n, c, pixel] = g.in.place(element);
  const Sizes input = place_of(pixel, g.in.sizes);
  const std::int64_t first_k = c / g.c_of_group * g.k_of_group;
  for (std::int64_t tap = 0; tap < volume(g.filter); ++tap) {
    const std::int64_t met = g.met_output(input, place_of(tap, g.filter));
    for (std::int64_t k = 0; met >= 0 && k < g.k_of_group; ++k) {
      products.a.push_back(g.out.at(n, first_k + k, met));
      products.b.push_back(g.weight(first_k + k, tap, c % g.c_of_group));
    }
  }
  return products;
}

ConvProducts of_filter(const Geometry& g, std::int64_t element) {
  ConvProducts products;
  const std::int64_t taps = volume(g.filter), k = element / (taps * g.c_of_group);
  const Sizes tap = place_of(element / g.c_of_group % taps, g.filter);
  const std::int64_t c = k / g.k_of_group * g.c_of_group + element % g.c_of_group;
  for (std::int64_t n = 0; n < g.images; ++n) {
    for (std::int64_t pixel = 0; pixel < volume(g.out.sizes); ++pixel) {
      const std::int64_t met = g.met_input(place_of(pixel, g.out.sizes), tap);
      if (met < 0) continue;
      products.a.push_back(g.out.at(n, k, pixel));
      products.b.push_back(g.in.at(n, c, met));
    }
  }
  return products;
}

/// C as rows of neighbours.
MatrixView rows_of(const ConvProblem& p) {
  const ConvElements count = operand_elements(p);
  const Geometry g(p);
  const Signature signature = signature_of(p);
  const auto rows = [&](std::int64_t elements, std::int64_t length) {
    return MatrixView{signature.dtype_c, elements / length, length, length, elements, true};
  };
  const auto image = [&](const Image& of, std::int64_t elements) {
    return rows(elements, of.channels_last ? of.channels : of.sizes[2]);
  };
  switch (p.op) {
    case Op::conv_bwd_data:
      return image(g.in, count.in);
    case Op::conv_bwd_weight:
      return rows(count.wei, g.c_of_group);
    default:
      return image(g.out, count.out);
  }
}

std::vector<std::int64_t> places_to_compare(const ConvProblem& problem, const MatrixView& rows) {
  std::vector<std::int64_t> places;
  const std::int64_t elements = rows.rows * rows.columns;
  const double products = flop_count(problem) / 2;
  if (products + static_cast<double>(elements) <= kMostProducts) {
    for (std::int64_t i = 0; i < elements; ++i) places.push_back(i);
    return places;
  }
  std::set<std::int64_t> drawn = {0, rows.columns - 1, elements - rows.columns, elements - 1};
  const double of_each = std::max(1.0, products / static_cast<double>(elements));
  const auto wanted = static_cast<std::size_t>(std::clamp(kDrawnProducts / of_each, kLeastDrawn, kMostDrawn));
  std::uint64_t random = fields_hash(problem);
  for (std::size_t i = 0; i < wanted; ++i) {
    random = mix_hash(random, 1);
    drawn.insert(static_cast<std::int64_t>(random % static_cast<std::uint64_t>(elements)));
  }
  return {drawn.begin(), drawn.end()};
}

}  // namespace

ConvProducts conv_products(const ConvProblem& problem, std::int64_t element) {
  const Geometry geometry(problem);
  switch (problem.op) {
    case Op::conv_bwd_data:
      return of_input(geometry, element);
    case Op::conv_bwd_weight:
      return of_filter(geometry, element);
    default:
      return of_output(geometry, element);
  }
}

ConvReference::ConvReference(const ConvProblem& problem, const GemmOperands& operands)
    : device_(operands.device()), rows_(rows_of(problem)), places_(places_to_compare(problem, rows_)) {
  const Signature signature = signature_of(problem);
  const double store_round_off = round_off(signature.dtype_c), store_step = step(signature.dtype_c);
  const bool in_parts = problem.op == Op::conv_bwd_weight;
  // All at once: on a GPU each gathering is a transfer.
  ConvProducts all;
  std::vector<std::size_t> ends;
  for (const std::int64_t place : places_) {
    const ConvProducts products = conv_products(problem, place);
    all.a.insert(all.a.end(), products.a.begin(), products.a.end());
    all.b.insert(all.b.end(), products.b.begin(), products.b.end());
    ends.push_back(all.a.size());
  }
  std::vector<double> a(all.a.size()), b(all.b.size());
  device_.gather(signature.dtype_a, operands.a(), all.a, a);
  device_.gather(signature.dtype_b, operands.b(), all.b, b);
  std::size_t i = 0;
  for (const std::size_t end : ends) {
    const auto count = static_cast<std::int64_t>(end - i);
    double value = 0, square_a = 0, square_b = 0;
    for (; i < end; ++i) {
      value += a[i] * b[i];
      square_a += a[i] * a[i];
      square_b += b[i] * b[i];
    }
    const double norms = std::sqrt(square_a * square_b);
    const double terms = std::sqrt(std::max(1.0, static_cast<double>(count)));
    const double parts = in_parts ? kPartsSlack * store_round_off * norms / terms : 0;
    elements_.push_back(
        {value, kSlack * sum_round_off(signature.dtype_a, signature.dtype_acc, count) * norms + parts +
                    kStoreSlack * (store_round_off * std::abs(value) + store_step)});
  }
}

Verification ConvReference::check(const void* c) const {
  Verification worst;
  std::vector<double> got(places_.size());
  device_.gather(rows_.dtype, c, places_, got);
  for (std::size_t i = 0; i < elements_.size(); ++i) {
    const double error = difference_over(got[i], elements_[i].value, elements_[i].tolerance);
    if (error <= worst.error) continue;
    worst.error = error;
    if (error > 1) {
      worst.where = fmt::format("element {} of the result is {:.9g}, not {:.9g} (tolerance {:.2g})",
                                places_[i], got[i], elements_[i].value, elements_[i].tolerance);
    }
  }
  const std::vector<double> ones(static_cast<std::size_t>(rows_.columns), 1.0);
  const Product sums = device_.multiply(rows_, c, 1, ones, Squares::none);
  for (std::size_t row = 0; row < sums.value.size(); ++row) {
    if (!std::isnan(sums.value[row])) continue;
    const auto first = static_cast<std::int64_t>(row) * rows_.columns;
    return {std::numeric_limits<double>::infinity(),
            fmt::format("elements {} to {} of the result are not all numbers: some were never written", first,
                        first + rows_.columns - 1)};
  }
  return worst;
}

}  // namespace kscout
