#include "op/gemm/gemm_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <span>

#include "instruments/freivalds.h"
#include "op/gemm/gemm_views.h"

namespace kscout {

namespace {

constexpr int kRandomElements = 12;
constexpr int kRandomNonlinear = 200;  // used where rows cannot be checked

double dot(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

double norm(std::span<const double> a) { return std::sqrt(dot(a, a)); }

std::vector<double> gather(const GemmData& operands, DType dtype, const void* data,
                           const std::vector<std::int64_t>& indices) {
  std::vector<double> out(indices.size());
  operands.device.gather(dtype, data, indices, out);
  return out;
}

/// The product of a row of A and a column of B, and the product of their norms. Reads a part of both at a
/// time, because a vector of K doubles and their positions takes more memory than the operands.
struct ElementProduct {
  double product = 0, norms = 0;
};
ElementProduct element_product(const GemmData& operands, const GemmProblem& problem, std::int64_t item,
                               std::int64_t row, std::int64_t column) {
  constexpr std::int64_t kPart = 1 << 16;
  const MatrixView a_view = view_a(problem), b_view = view_b(problem);
  std::vector<std::int64_t> at;
  double product = 0, squares_a = 0, squares_b = 0;
  for (std::int64_t first = 0; first < problem.k; first += kPart) {
    const std::int64_t end = std::min(problem.k, first + kPart);
    at.clear();
    for (std::int64_t k = first; k < end; ++k) at.push_back(a_view.at(item, row, k));
    const std::vector<double> a = gather(operands, a_view.dtype, operands.a, at);
    at.clear();
    for (std::int64_t k = first; k < end; ++k) at.push_back(b_view.at(item, k, column));
    const std::vector<double> b = gather(operands, b_view.dtype, operands.b, at);
    for (std::size_t i = 0; i < a.size(); ++i) {
      product += a[i] * b[i];
      squares_a += a[i] * a[i];
      squares_b += b[i] * b[i];
    }
  }
  return {product, std::sqrt(squares_a) * std::sqrt(squares_b)};
}

/// Reads a batch item, row after row.
std::vector<double> item_of(const GemmData& operands, const MatrixView& view, const void* data,
                            std::int64_t item) {
  std::vector<std::int64_t> indices;
  for (std::int64_t r = 0; r < view.rows; ++r) {
    for (std::int64_t c = 0; c < view.columns; ++c) indices.push_back(view.at(item, r, c));
  }
  return gather(operands, view.dtype, data, indices);
}

bool is_linear(Epilogue epilogue) { return epilogue == Epilogue::none || epilogue == Epilogue::bias; }

/// The tanh form of GELU, as GPU libraries compute it.
double gelu(double x) { return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))); }

}  // namespace

double apply_epilogue(Epilogue epilogue, double x) {
  switch (epilogue) {
    case Epilogue::relu:
    case Epilogue::bias_relu:
      return std::max(x, 0.0);
    case Epilogue::gelu:
    case Epilogue::bias_gelu:
      return gelu(x);
    case Epilogue::none:
    case Epilogue::bias:
      break;
  }
  return x;
}

GemmReference::GemmReference(const GemmProblem& problem, const GemmData& operands)
    : device_(operands.device),
      problem_(problem),
      sum_round_off_(sum_round_off(problem.dtype_a, problem.dtype_acc, problem.k)),
      store_round_off_(round_off(problem.dtype_c)),
      store_step_(step(problem.dtype_c)) {
  if (problem.m == 0 || problem.n == 0) return;
  if (flop_count(problem) / 2 + static_cast<double>(operand_elements(problem).c) <= kMaxProducts) {
    add_all_elements(operands);
  } else {
    add_sampled_elements(operands);
    if (is_linear(problem.epilogue)) add_row_checks(operands);
  }
}

void GemmReference::add_element(const Place& place, double product, double norms, double read, double bias) {
  const double before = product + read + bias;
  const double value = apply_epilogue(problem_.epilogue, before);
  const double stored = problem_.epilogue == Epilogue::none ? 0 : std::abs(product + read);
  elements_.push_back(
      {place.item, place.row, place.column, value,
       kSlack * sum_round_off_ * norms +
           kStoreSlack * (store_round_off_ * (std::abs(before) + std::abs(read) + stored) + store_step_)});
  places_.push_back(view_c(problem_).at(place.item, place.row, place.column));
}

void GemmReference::add_all_elements(const GemmData& operands) {
  const auto rows = static_cast<std::size_t>(problem_.m), columns = static_cast<std::size_t>(problem_.n),
             depth = static_cast<std::size_t>(problem_.k);
  const std::vector<double> bias = bias_of(operands);
  MatrixView transposed_b = view_b(problem_);
  std::swap(transposed_b.rows, transposed_b.columns);
  transposed_b.row_major = !transposed_b.row_major;
  for (std::int64_t item = 0; item < problem_.batch; ++item) {
    const auto a = item_of(operands, view_a(problem_), operands.a, item);
    const auto b = item_of(operands, transposed_b, operands.b, item);
    std::vector<double> read;
    if (operands.initial_c) read = item_of(operands, view_c(problem_), operands.initial_c, item);
    const auto line = [&](const std::vector<double>& of, std::size_t at) {
      return std::span(of).subspan(at * depth, depth);
    };
    std::vector<double> norm_b(columns);
    for (std::size_t j = 0; j < columns; ++j) norm_b[j] = norm(line(b, j));
    for (std::size_t i = 0; i < rows; ++i) {
      const double norm_a = norm(line(a, i));
      for (std::size_t j = 0; j < columns; ++j) {
        add_element({item, static_cast<std::int64_t>(i), static_cast<std::int64_t>(j)},
                    operands.alpha * dot(line(a, i), line(b, j)), norm_a * norm_b[j],
                    read.empty() ? 0 : operands.beta * read[i * columns + j], bias.empty() ? 0 : bias[j]);
      }
    }
  }
}

void GemmReference::add_sampled_elements(const GemmData& operands) {
  const std::int64_t m = problem_.m, n = problem_.n;
  std::set<Place> places;
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
  const int count = is_linear(problem_.epilogue) ? kRandomElements : kRandomNonlinear;
  for (int i = 0; i < count; ++i) places.insert({below(problem_.batch), below(m), below(n)});
  const std::vector<double> bias = bias_of(operands);
  const MatrixView view = view_c(problem_);
  for (const Place& place : places) {
    const auto [product, norms] = element_product(operands, problem_, place.item, place.row, place.column);
    double read = 0;
    if (operands.initial_c) {
      read = operands.beta * gather(operands, view.dtype, operands.initial_c,
                                    {view.at(place.item, place.row, place.column)})[0];
    }
    add_element(place, operands.alpha * product, norms, read,
                bias.empty() ? 0 : bias[static_cast<std::size_t>(place.column)]);
  }
}

std::vector<double> GemmReference::bias_of(const GemmData& operands) const {
  const void* const bias = operands.bias;
  if (!bias) return {};
  std::vector<std::int64_t> indices(static_cast<std::size_t>(problem_.n));
  std::iota(indices.begin(), indices.end(), std::int64_t{0});
  return gather(operands, problem_.dtype_c, bias, indices);
}

void GemmReference::add_row_checks(const GemmData& operands) {
  x_ = row_weights(problem_.n);
  // The reference itself sums in float64; its own round-off matters only against exact integers.
  const double unit = sum_round_off_ + 0x1p-50;
  const double k = static_cast<double>(problem_.k);
  const auto items = static_cast<std::size_t>(problem_.batch), rows = static_cast<std::size_t>(problem_.m);
  const Product b = device_.multiply(view_b(problem_), operands.b, problem_.batch, x_, Squares::scaled);
  const Product a = device_.multiply(view_a(problem_), operands.a, problem_.batch, b.value, Squares::plain);
  Product read;
  if (operands.initial_c) {
    read = device_.multiply(view_c(problem_), operands.initial_c, problem_.batch, x_, Squares::scaled);
  }
  const std::vector<double> bias = bias_of(operands);
  const double bias_sum = bias.empty() ? 0 : dot(bias, x_), bias_size = bias.empty() ? 0 : norm(bias);
  rows_.reserve(items * rows);
  for (std::size_t item = 0; item < items; ++item) {
    double weighted = 0;  // sum_j x_j^2 |b_j|^2
    for (const double square : std::span(b.squares).subspan(item * static_cast<std::size_t>(problem_.k),
                                                            static_cast<std::size_t>(problem_.k))) {
      weighted += square;
    }
    for (std::size_t i = item * rows; i < (item + 1) * rows; ++i) {
      const double norms = std::sqrt(a.squares[i] * weighted);
      // An element of C has the size |a_i| |b_j| / sqrt(k), because the signs of its k products are random.
      double stored = norms * std::min(1.0, 2 / std::sqrt(std::max(k, 1.0))) + bias_size;
      double value = operands.alpha * a.value[i] + bias_sum;
      if (!read.value.empty()) {
        value += operands.beta * read.value[i];
        stored += operands.beta * std::sqrt(read.squares[i]);
      }
      rows_.push_back({value, kSlack * (unit * norms + store_round_off_ * stored + store_step_ * norm(x_))});
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
  std::vector<double> got(places_.size());
  device_.gather(view.dtype, c, places_, got);
  for (std::size_t i = 0; i < elements_.size(); ++i) {
    const Element& e = elements_[i];
    note(difference_over(got[i], e.value, e.tolerance), [&] {
      return fmt::format("C({},{}) of batch item {} is {:.9g}, not {:.9g} (tolerance {:.2g})", e.row,
                         e.column, e.item, got[i], e.value, e.tolerance);
    });
  }
  if (rows_.empty()) return worst;
  const Product sums = device_.multiply(view, c, problem_.batch, x_, Squares::none);
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    note(difference_over(sums.value[i], rows_[i].value, rows_[i].tolerance), [&] {
      const auto rows = static_cast<std::size_t>(problem_.m);
      return fmt::format(
          "row {} of batch item {} is wrong: its checksum is {:.9g}, not {:.9g} (tolerance {:.2g})", i % rows,
          i / rows, sums.value[i], rows_[i].value, rows_[i].tolerance);
    });
  }
  return worst;
}

}  // namespace kscout
