#include "measure/verify.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>

#include "measure/elements.h"

namespace kscout {

namespace {

constexpr double kMostProducts = 1 << 19;  // up to here every element is compared: below a millisecond
constexpr int kRandomElements = 12;
constexpr double kSlack = 8;       // unit round-offs of a sum that are allowed
constexpr double kStoreSlack = 2;  // unit round-offs of a stored element that are allowed

double difference_over(double got, double expected, double tolerance) {
  const double difference = std::abs(got - expected);
  if (difference == 0) return 0;
  if (std::isnan(difference)) return std::numeric_limits<double>::infinity();
  return difference / tolerance;
}

/// Sums of eight lanes: fixed order, and the compiler may use vectors for it.
struct Lanes {
  std::array<double, 8> lane{};
  double total() const {
    return ((lane[0] + lane[4]) + (lane[1] + lane[5])) + ((lane[2] + lane[6]) + (lane[3] + lane[7]));
  }
};

/// sum line[i] * x[i].
template <class E>
double dot(const typename E::stored* line, const double* x, std::int64_t count) {
  Lanes sum;
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (std::size_t l = 0; l < 8; ++l)
      sum.lane[l] += E::load(line + i, static_cast<std::int64_t>(l)) * x[i + static_cast<std::int64_t>(l)];
  }
  for (; i < count; ++i) sum.lane[0] += E::load(line, i) * x[i];
  return sum.total();
}

template <class E>
double sum_of_squares(const typename E::stored* line, std::int64_t count) {
  Lanes sum;
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (std::size_t l = 0; l < 8; ++l) {
      const double value = E::load(line + i, static_cast<std::int64_t>(l));
      sum.lane[l] += value * value;
    }
  }
  for (; i < count; ++i) sum.lane[0] += E::load(line, i) * E::load(line, i);
  return sum.total();
}

/// One batch item times a vector: M v per row, and per row the sum of (M_rc v_c)^2 when squares are wanted
/// with the vector, or of M_rc^2 without.
struct Product {
  std::vector<double> value, squares;
};

template <class E>
Product multiply(const MatrixView& view, const void* data, std::int64_t item, const std::vector<double>& x,
                 bool scale_squares) {
  Product out{std::vector<double>(static_cast<std::size_t>(view.rows)),
              std::vector<double>(static_cast<std::size_t>(view.rows))};
  const auto* const base = static_cast<const typename E::stored*>(data) + item * view.batch_stride;
  for (std::int64_t l = 0; l < view.lines(); ++l) {
    const auto* const line = base + l * view.leading;
    const auto at = static_cast<std::size_t>(l);
    if (view.row_major) {
      out.value[at] = dot<E>(line, x.data(), view.columns);
      if (!scale_squares) {
        out.squares[at] = sum_of_squares<E>(line, view.columns);
        continue;
      }
      Lanes sum;
      for (std::int64_t c = 0; c < view.columns; ++c) {
        const double value = E::load(line, c) * x[static_cast<std::size_t>(c)];
        sum.lane[static_cast<std::size_t>(c & 7)] += value * value;
      }
      out.squares[at] = sum.total();
    } else {
      const double scale = x[at], square_scale = scale_squares ? scale * scale : 1;
      for (std::int64_t r = 0; r < view.rows; ++r) {
        const double value = E::load(line, r);
        out.value[static_cast<std::size_t>(r)] += scale * value;
        out.squares[static_cast<std::size_t>(r)] += square_scale * (value * value);
      }
    }
  }
  return out;
}

Product multiply(const MatrixView& view, const void* data, std::int64_t item, const std::vector<double>& x,
                 bool scale_squares) {
  return with_element(view.dtype, [&]<class E>() { return multiply<E>(view, data, item, x, scale_squares); });
}

std::vector<double> row_of(const MatrixView& view, const void* data, std::int64_t item, std::int64_t row) {
  std::vector<double> out(static_cast<std::size_t>(view.columns));
  with_element(view.dtype, [&]<class E>() {
    for (std::int64_t c = 0; c < view.columns; ++c)
      out[static_cast<std::size_t>(c)] = E::load(data, view.at(item, row, c));
  });
  return out;
}

std::vector<double> column_of(const MatrixView& view, const void* data, std::int64_t item,
                              std::int64_t column) {
  std::vector<double> out(static_cast<std::size_t>(view.rows));
  with_element(view.dtype, [&]<class E>() {
    for (std::int64_t r = 0; r < view.rows; ++r)
      out[static_cast<std::size_t>(r)] = E::load(data, view.at(item, r, column));
  });
  return out;
}

double load(const MatrixView& view, const void* data, std::int64_t index) {
  return with_element(view.dtype, [&]<class E>() { return E::load(data, index); });
}

double round_off(DType dtype) {
  return with_element(dtype, []<class E>() { return E::round_off; });
}

}  // namespace

GemmReference::GemmReference(const GemmProblem& problem, const GemmOperands& operands)
    : problem_(problem),
      sum_round_off_(round_off(problem.dtype_acc)),
      store_round_off_(round_off(problem.dtype_c)) {
  if (problem.m == 0 || problem.n == 0) return;
  if (flop_count(problem) / 2 + static_cast<double>(operand_elements(problem).c) <= kMostProducts) {
    add_all_elements(operands);
  } else {
    add_sampled_elements(operands);
    add_row_checks(operands);
  }
}

void GemmReference::add_element(const GemmOperands& operands, std::int64_t item, std::int64_t row,
                                std::int64_t column) {
  const auto a = row_of(view_a(problem_), operands.a(), item, row);
  const auto b = column_of(view_b(problem_), operands.b(), item, column);
  const double product = operands.alpha() * dot<Float64>(a.data(), b.data(), problem_.k);
  const double norms = std::sqrt(sum_of_squares<Float64>(a.data(), problem_.k) *
                                 sum_of_squares<Float64>(b.data(), problem_.k));
  const MatrixView c = view_c(problem_);
  const double added = operands.initial_c().empty()
                           ? 0
                           : operands.beta() * load(c, operands.initial_c().data(), c.at(item, row, column));
  const double value = product + added;
  const double tolerance =
      kSlack * sum_round_off_ * norms + kStoreSlack * store_round_off_ * (std::abs(value) + std::abs(added));
  elements_.push_back({item, row, column, value, tolerance});
}

void GemmReference::add_all_elements(const GemmOperands& operands) {
  const auto rows = static_cast<std::size_t>(problem_.m), columns = static_cast<std::size_t>(problem_.n);
  const MatrixView c = view_c(problem_);
  for (std::int64_t item = 0; item < problem_.batch; ++item) {
    std::vector<std::vector<double>> a(rows), b(columns);
    std::vector<double> norm_a(rows), norm_b(columns);
    for (std::size_t i = 0; i < rows; ++i) {
      a[i] = row_of(view_a(problem_), operands.a(), item, static_cast<std::int64_t>(i));
      norm_a[i] = std::sqrt(sum_of_squares<Float64>(a[i].data(), problem_.k));
    }
    for (std::size_t j = 0; j < columns; ++j) {
      b[j] = column_of(view_b(problem_), operands.b(), item, static_cast<std::int64_t>(j));
      norm_b[j] = std::sqrt(sum_of_squares<Float64>(b[j].data(), problem_.k));
    }
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t j = 0; j < columns; ++j) {
        const auto row = static_cast<std::int64_t>(i), column = static_cast<std::int64_t>(j);
        const double added =
            operands.initial_c().empty()
                ? 0
                : operands.beta() * load(c, operands.initial_c().data(), c.at(item, row, column));
        const double value = operands.alpha() * dot<Float64>(a[i].data(), b[j].data(), problem_.k) + added;
        const double tolerance = kSlack * sum_round_off_ * norm_a[i] * norm_b[j] +
                                 kStoreSlack * store_round_off_ * (std::abs(value) + std::abs(added));
        elements_.push_back({item, row, column, value, tolerance});
      }
    }
  }
}

void GemmReference::add_sampled_elements(const GemmOperands& operands) {
  const std::int64_t m = problem_.m, n = problem_.n;
  std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t>> places;
  const std::int64_t last = problem_.batch - 1;
  for (const std::int64_t row : {std::int64_t{0}, m - 1}) {
    for (const std::int64_t column : {std::int64_t{0}, n - 1}) places.insert({0, row, column});
  }
  for (std::int64_t tile = 8; tile <= 256; tile *= 2) {
    places.insert({last, std::min(tile, m - 1), std::min(tile, n - 1)});
    places.insert({last, (m - 1) / tile * tile, (n - 1) / tile * tile});
  }
  std::uint64_t random = fields_hash(problem_);
  const auto below = [&](std::int64_t limit) {
    random = mix_hash(random, 1);
    return static_cast<std::int64_t>(random % static_cast<std::uint64_t>(limit));
  };
  for (int i = 0; i < kRandomElements; ++i) places.insert({below(problem_.batch), below(m), below(n)});
  for (const auto& [item, row, column] : places) add_element(operands, item, row, column);
}

void GemmReference::add_row_checks(const GemmOperands& operands) {
  x_.resize(static_cast<std::size_t>(problem_.n));
  std::uint64_t random = 0x5EED;
  for (double& x : x_) {
    random = mix_hash(random, 1);
    const double size = 0.5 + static_cast<double>(random >> 11) * 0x1p-53;
    x = (random & 1) ? size : -size;
  }
  // The reference itself sums in float64; its own round-off only shows beside exact integers.
  const double unit = sum_round_off_ + 0x1p-50;
  const double k = static_cast<double>(problem_.k);
  rows_.reserve(static_cast<std::size_t>(problem_.batch * problem_.m));
  for (std::int64_t item = 0; item < problem_.batch; ++item) {
    const Product b = multiply(view_b(problem_), operands.b(), item, x_, true);
    double weighted = 0;  // sum_j x_j^2 |b_j|^2
    for (const double square : b.squares) weighted += square;
    const Product a = multiply(view_a(problem_), operands.a(), item, b.value, false);
    Product added;
    if (!operands.initial_c().empty()) {
      added = multiply(view_c(problem_), operands.initial_c().data(), item, x_, true);
    }
    for (std::size_t i = 0; i < a.value.size(); ++i) {
      const double norms = std::sqrt(a.squares[i] * weighted);
      // An element of C has the size |a_i| |b_j| / sqrt(k): signs of its k products are random.
      double stored = norms * std::min(1.0, 2 / std::sqrt(std::max(k, 1.0)));
      double value = operands.alpha() * a.value[i];
      if (!added.value.empty()) {
        value += operands.beta() * added.value[i];
        stored += operands.beta() * std::sqrt(added.squares[i]);
      }
      rows_.push_back({value, kSlack * (unit * norms + store_round_off_ * stored)});
    }
  }
}

Verification GemmReference::check(const void* c) const {
  Verification worst;
  const MatrixView view = view_c(problem_);
  const auto note = [&](double error, auto&& describe) {
    if (error <= worst.error) return;
    worst.error = error;
    if (error > 1) worst.where = describe();
  };
  with_element(view.dtype, [&]<class E>() {
    for (const Element& e : elements_) {
      const double got = E::load(c, view.at(e.item, e.row, e.column));
      note(difference_over(got, e.value, e.tolerance), [&] {
        return fmt::format("C({},{}) of batch item {} is {:.9g}, not {:.9g} (tolerance {:.2g})", e.row,
                           e.column, e.item, got, e.value, e.tolerance);
      });
    }
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const auto item = static_cast<std::int64_t>(i) / problem_.m,
                 row = static_cast<std::int64_t>(i) % problem_.m;
      const auto* const line = static_cast<const typename E::stored*>(c) + view.at(item, row, 0);
      const double got = dot<E>(line, x_.data(), problem_.n);
      note(difference_over(got, rows_[i].value, rows_[i].tolerance), [&] {
        return fmt::format(
            "row {} of batch item {} is wrong: its checksum is {:.9g}, not {:.9g} (tolerance {:.2g})", row,
            item, got, rows_[i].value, rows_[i].tolerance);
      });
    }
  });
  return worst;
}

}  // namespace kscout
