#include "op/conv/conv_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <span>

#include "instruments/freivalds.h"
#include "op/struct_operation.h"

namespace kscout {

namespace {

// Maximum number of products for the elements that are compared one by one.
constexpr double kDrawnProducts = 1 << 20;
constexpr double kMinDrawn = 8, kMaxDrawn = 4096;

/// No products yet, with room for this many.
ConvProducts room_for(std::int64_t count) {
  ConvProducts products;
  products.a.reserve(static_cast<std::size_t>(count));
  products.b.reserve(static_cast<std::size_t>(count));
  return products;
}

/// Appends first, first + step, ... to the indices.
void append(std::vector<std::int64_t>& to, std::int64_t first, std::int64_t step, std::int64_t count) {
  const std::size_t before = to.size();
  to.resize(before + static_cast<std::size_t>(count));
  std::int64_t* const added = to.data() + before;
  for (std::int64_t i = 0; i < count; ++i) added[i] = first + i * step;
}

// Places are computed once per pixel or tap: their divisions would take most of the time.

ConvProducts of_output(const ConvGeometry& g, std::int64_t element) {
  ConvProducts products = room_for(g.taps() * g.c_of_group);
  const ConvImage::Place to = g.out.place(element);
  const ConvSizes from = ConvGeometry::place_of(to.pixel, g.out.sizes);
  const std::int64_t first_c = to.channel / g.k_of_group * g.c_of_group;
  for_each_place(g.filter, [&](const ConvSizes& of_tap, std::int64_t tap) {
    const std::int64_t met = g.met_input(from, of_tap);
    if (met < 0) return;
    append(products.a, g.in.at(to.n, first_c, met), g.in.channel_step(), g.c_of_group);
    append(products.b, g.weight(to.channel, tap, 0), 1, g.c_of_group);
  });
  return products;
}

ConvProducts of_input(const ConvGeometry& g, std::int64_t element) {
  ConvProducts products = room_for(g.taps() * g.k_of_group);
  const ConvImage::Place to = g.in.place(element);
  const ConvSizes from = ConvGeometry::place_of(to.pixel, g.in.sizes);
  const std::int64_t first_k = to.channel / g.c_of_group * g.k_of_group, c = to.channel % g.c_of_group;
  for_each_place(g.filter, [&](const ConvSizes& of_tap, std::int64_t tap) {
    const std::int64_t met = g.met_output(from, of_tap);
    if (met < 0) return;
    append(products.a, g.out.at(to.n, first_k, met), g.out.channel_step(), g.k_of_group);
    append(products.b, g.weight(first_k, tap, c), g.taps() * g.c_of_group, g.k_of_group);
  });
  return products;
}

ConvProducts of_filter(const ConvGeometry& g, std::int64_t element) {
  ConvProducts products = room_for(g.images * g.out.pixels());
  const std::int64_t k = element / (g.taps() * g.c_of_group), tap = element / g.c_of_group % g.taps();
  const std::int64_t c = k / g.k_of_group * g.c_of_group + element % g.c_of_group;
  const ConvSizes of_tap = ConvGeometry::place_of(tap, g.filter);
  for (std::int64_t n = 0; n < g.images; ++n) {
    for_each_place(g.out.sizes, [&](const ConvSizes& from, std::int64_t pixel) {
      const std::int64_t met = g.met_input(from, of_tap);
      if (met < 0) return;
      products.a.push_back(g.out.at(n, k, pixel));
      products.b.push_back(g.in.at(n, c, met));
    });
  }
  return products;
}

double products_of(const ConvProblem& problem) { return flop_count(problem) / 2; }

bool is_small(const ConvProblem& problem, const ConvRows& rows) {
  return products_of(problem) + static_cast<double>(rows.count() * rows.view.columns) <= kMaxProducts;
}

/// All indices, or those at corners, at the edges of tiles of 8 to 256, and random ones.
std::vector<std::int64_t> places_to_compare(const ConvProblem& problem, const ConvRows& rows) {
  const std::int64_t count = rows.count(), columns = rows.view.columns, elements = count * columns;
  if (is_small(problem, rows)) {
    std::vector<std::int64_t> all(static_cast<std::size_t>(elements));
    std::iota(all.begin(), all.end(), std::int64_t{0});
    return all;
  }
  const double of_each = std::max(1.0, products_of(problem) / static_cast<double>(elements));
  const auto wanted = static_cast<std::size_t>(
      std::min(std::clamp(kDrawnProducts / of_each, kMinDrawn, kMaxDrawn), static_cast<double>(elements)));
  std::set<std::int64_t> drawn;
  const auto add = [&](std::int64_t row, std::int64_t column) {
    if (drawn.size() < wanted) drawn.insert(rows.element(row, column));
  };
  for (const std::int64_t row : {std::int64_t{0}, count - 1}) {
    for (const std::int64_t column : {std::int64_t{0}, columns - 1}) add(row, column);
  }
  for (std::int64_t tile = 256; tile >= 8; tile /= 2) {
    add(std::min(tile, count - 1), std::min(tile, columns - 1));
    add((count - 1) / tile * tile, (columns - 1) / tile * tile);
  }
  std::uint64_t random = fields_hash(problem);
  while (drawn.size() < wanted) {
    random = mix_hash(random, 1);
    drawn.insert(static_cast<std::int64_t>(random % static_cast<std::uint64_t>(elements)));
  }
  return {drawn.begin(), drawn.end()};
}

}  // namespace

ConvProducts conv_products(const ConvProblem& problem, std::int64_t element) {
  const ConvGeometry geometry(problem);
  switch (problem.op) {
    case Op::conv_bwd_data:
      return of_input(geometry, element);
    case Op::conv_bwd_weight:
      return of_filter(geometry, element);
    default:
      return of_output(geometry, element);
  }
}

namespace {

/// What the bias adds to each of some elements of C; zeros without one.
std::vector<double> biases_of(const ConvProblem& problem, const GemmOperands& operands,
                              std::span<const std::int64_t> places) {
  std::vector<double> biases(places.size(), 0);
  if (!has_bias(problem.epilogue)) return biases;
  const ConvGeometry geometry(problem);
  std::vector<std::int64_t> channels;
  for (const std::int64_t place : places) channels.push_back(geometry.out.place(place).channel);
  operands.device().gather(problem.dtype_out, operands.operand(kBias), channels, biases);
  return biases;
}

}  // namespace

ConvReference::ConvReference(const ConvProblem& problem, const GemmOperands& operands)
    : device_(operands.device()), rows_(problem), places_(places_to_compare(problem, rows_)) {
  const Signature signature = signature_of(problem);
  const double store_round_off = round_off(signature.dtype_c), store_step = step(signature.dtype_c);
  const bool in_parts = problem.op == Op::conv_bwd_weight;
  const std::vector<double> biases = biases_of(problem, operands, places_);
  // One gather for many elements, because each gather is a transfer on a GPU.
  ConvProducts all;
  std::vector<std::size_t> ends;
  const auto add_elements = [&] {
    std::vector<double> a(all.a.size()), b(all.b.size());
    device_.gather(signature.dtype_a, operands.a(), all.a, a);
    device_.gather(signature.dtype_b, operands.b(), all.b, b);
    std::size_t i = 0;
    for (const std::size_t end : ends) {
      const auto count = static_cast<std::int64_t>(end - i);
      double value = biases[elements_.size()], square_a = 0, square_b = 0;
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
    all = {};
    ends.clear();
  };
  for (const std::int64_t place : places_) {
    const ConvProducts products = conv_products(problem, place);
    all.a.insert(all.a.end(), products.a.begin(), products.a.end());
    all.b.insert(all.b.end(), products.b.begin(), products.b.end());
    ends.push_back(all.a.size());
    if (static_cast<double>(all.a.size()) >= 2 * kDrawnProducts) add_elements();
  }
  add_elements();
  if (!is_small(problem, rows_)) sums_ = row_sums(problem, operands, rows_);
}

Verification ConvReference::check(const void* c) const {
  Verification worst;
  std::vector<double> got(places_.size());
  device_.gather(rows_.view.dtype, c, places_, got);
  for (std::size_t i = 0; i < elements_.size(); ++i) {
    const double error = difference_over(got[i], elements_[i].value, elements_[i].tolerance);
    if (error <= worst.error) continue;
    worst.error = error;
    if (error > 1) {
      worst.where = fmt::format("element {} of the result is {:.9g}, not {:.9g} (tolerance {:.2g})",
                                places_[i], got[i], elements_[i].value, elements_[i].tolerance);
    }
  }
  if (sums_.empty()) return worst;
  const Product sums = device_.multiply(rows_.view, c, rows_.items, rows_.weights, Squares::none);
  const auto name = [&](std::int64_t row) {
    return fmt::format("row {} of the result (elements {} to {})", row, rows_.element(row, 0),
                       rows_.element(row, rows_.view.columns - 1));
  };
  const auto bad = std::ranges::find_if(sums.value, [](double sum) { return std::isnan(sum); });
  if (bad != sums.value.end()) {
    return {std::numeric_limits<double>::infinity(),
            fmt::format("{} does not hold numbers only: some were never written",
                        name(bad - sums.value.begin()))};
  }
  for (const RowSum& expected : sums_) {
    const double sum = sums.value[static_cast<std::size_t>(expected.row)];
    const double error = difference_over(sum, expected.value, expected.tolerance);
    if (error <= worst.error) continue;
    worst.error = error;
    if (error > 1) {
      worst.where = fmt::format("{} is wrong: its checksum is {:.9g}, not {:.9g} (tolerance {:.2g})",
                                name(expected.row), sum, expected.value, expected.tolerance);
    }
  }
  return worst;
}

}  // namespace kscout
