#include "forest/forest.h"

#include <cmath>

#include "core/fail.h"

namespace kscout {

namespace {

// What LightGBM takes for zero: its constant is the float 1e-35 widened to double.
constexpr double kZero = 1e-35f;

bool is_zero(double value) noexcept { return value >= -kZero && value <= kZero; }

/// True when the value goes left.
bool numerical_left(double value, double threshold, std::uint8_t decision) noexcept {
  const Missing missing = Decision::missing(decision);
  const bool is_nan = value != value;
  if (is_nan && missing != Missing::nan) value = 0;
  const bool absent = missing == Missing::nan ? is_nan : missing == Missing::zero && is_zero(value);
  if (absent) return (decision & Decision::default_left) != 0;
  return (is_zero(value) ? 0.0 : value) <= threshold;
}

bool categorical_left(double value, std::span<const std::uint32_t> bits) noexcept {
  if (!(value > -1.0 && value < 2147483648.0)) return false;  // NaN, negative, beyond int
  const auto category = static_cast<std::uint32_t>(value);
  return category / 32 < bits.size() && ((bits[category / 32] >> (category % 32)) & 1U) != 0;
}

/// The leaf of one tree, counted from its first; `value_of(f)` gives feature f of the row.
template <class ValueOf>
std::size_t leaf(const Forest& forest, std::size_t tree, ValueOf&& value_of) noexcept {
  const std::size_t first = forest.tree_nodes[tree];
  std::int32_t node = forest.tree_nodes[tree + 1] == first ? -1 : 0;
  while (node >= 0) {
    const std::size_t at = first + static_cast<std::size_t>(node);
    const std::uint8_t decision = forest.decision[at];
    const double value = value_of(forest.feature[at]);
    bool left;
    if (decision & Decision::categorical) {
      const auto set = static_cast<std::size_t>(forest.threshold[at]);
      const std::size_t begin = forest.set_words[set];
      left = categorical_left(value, {forest.set_bits.data() + begin, forest.set_words[set + 1] - begin});
    } else {
      left = numerical_left(value, forest.threshold[at], decision);
    }
    node = left ? forest.left[at] : forest.right[at];
  }
  return static_cast<std::size_t>(~node);
}

template <class ValueOf>
double score(const Forest& forest, ValueOf&& value_of) noexcept {
  double sum = 0;
  const std::size_t trees = forest.tree_count();
  for (std::size_t tree = 0; tree < trees; ++tree) {
    sum += forest.leaf_value[forest.tree_leaves[tree] + leaf(forest, tree, value_of)];
  }
  return forest.average && trees > 0 ? sum / static_cast<double>(trees) : sum;
}

}  // namespace

double Forest::predict(std::span<const double> row) const noexcept {
  return score(*this, [&](std::uint32_t f) { return row[f]; });
}

std::size_t Forest::leaf_of(std::size_t tree, std::span<const double> row) const noexcept {
  return leaf(*this, tree, [&](std::uint32_t f) { return row[f]; });
}

void Forest::predict(const double* matrix, std::size_t row_stride, std::size_t feature_stride,
                     std::span<double> scores) const noexcept {
  for (std::size_t r = 0; r < scores.size(); ++r) {
    const double* const row = matrix + r * row_stride;
    scores[r] = score(*this, [&](std::uint32_t f) { return row[f * feature_stride]; });
  }
}

}  // namespace kscout
