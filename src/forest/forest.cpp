#include "forest/forest.h"

#include "forest/decide.h"

namespace kscout {

namespace {

/// The leaf of one tree, counted from its first; `value_of(f)` gives feature f of the row.
template <class ValueOf>
std::size_t leaf(const Forest& forest, std::size_t tree, ValueOf&& value_of) noexcept {
  const std::size_t first = forest.tree_nodes[tree];
  std::int32_t node = forest.tree_nodes[tree + 1] == first ? -1 : 0;
  while (node >= 0) {
    const std::size_t at = first + static_cast<std::size_t>(node);
    const std::uint8_t decision = forest.decision[at];
    const double value = value_of(forest.feature[at]);
    const bool left = decision & Decision::categorical
                          ? categorical_left(value, category_set(forest, at))
                          : numerical_left(value, forest.threshold[at], decision);
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
