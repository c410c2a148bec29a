#pragma once
/// \file
/// Stores an ensemble of decision trees as flat arrays, with its reference evaluation.
///
///     const Forest forest = read_lightgbm("model_relative.lgbm.gz").forest;    // lightgbm/lightgbm.h
///     const double score = forest.predict(row);                               // row: one double per feature
///
/// The evaluation (forest/trees-inl.h) follows LightGBM: doubles, trees summed in order, its rules for
/// missing values. The result equals LightGBM's own prediction bit for bit (tests/parity/).
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace kscout {

#include "forest/trees-inl.h"

/// Trees one after another. Tree t owns nodes tree_nodes[t] .. tree_nodes[t + 1) and leaves tree_leaves[t] ..
/// tree_leaves[t + 1); it has one leaf more than nodes. A child is a node of the same tree (>= 0, counted
/// from the tree's first node, larger than its parent) or ~leaf (< 0). A tree without nodes is a single leaf.
struct Forest {
  std::uint32_t feature_count = 0;
  bool average = false;  ///< the result is the mean of the trees, not their sum
  std::vector<std::uint32_t> tree_nodes = {0};
  std::vector<std::uint32_t> tree_leaves = {0};
  /// A row goes left when its value is <= threshold. For a categorical node, this number is the index of its
  /// category set.
  std::vector<double> threshold;
  std::vector<std::uint32_t> feature;
  std::vector<std::int32_t> left, right;
  std::vector<std::uint8_t> decision;
  std::vector<double> leaf_value;
  std::vector<std::uint32_t> set_words = {0};  ///< set s owns set_bits[set_words[s]] .. [set_words[s + 1])
  std::vector<std::uint32_t> set_bits;         ///< bit c of a set: category c goes left

  std::size_t tree_count() const noexcept { return tree_nodes.size() - 1; }
  std::size_t set_count() const noexcept { return set_words.size() - 1; }
  bool operator==(const Forest&) const = default;

  /// Scores one row of feature_count values; NaN means missing. The forest must have passed check().
  double predict(std::span<const double> row) const noexcept;

  /// The leaf that a row reaches, counted from the tree's first leaf.
  std::size_t leaf_of(std::size_t tree, std::span<const double> row) const noexcept;

  /// Scores `scores.size()` rows; value (r, f) is at matrix[r * row_stride + f * feature_stride].
  void predict(const double* matrix, std::size_t row_stride, std::size_t feature_stride,
               std::span<double> scores) const noexcept;
};

/// The first trees of a forest whose result is a sum; of a mean, their mean. trees <= forest.tree_count().
Forest first_trees(const Forest& forest, std::size_t trees);

/// Throws corrupt_data unless every index is in range, every node except the root and every leaf has exactly
/// one parent, no threshold is NaN and every leaf is finite.
void check(const Forest& forest);

// ---- Explains scores: how much each feature moved a score away from the mean of the compared rows.
//
//     const Contributions of = contributions(forest, matrix, rows, {best, second});
//     // of.expected + sum of of.by_feature[0] is the score of row `best`
//
// Method: decomposition along the decision path (Saabas 2014; what tree interpreters print). The expected
// value of a node is the mean of the rows that reach it. A split's feature is credited with the step from the
// node's expected value to its child's. The compared rows are the caller's, not the training set's: for one
// problem and its configs, features of the problem alone get no credit, since they favour no config. Credit
// depends on the order of splits, as in every path-based method.

struct Contributions {
  double expected = 0;                          ///< mean score of the rows
  std::vector<std::vector<double>> by_feature;  ///< per explained row, per feature
};

/// `matrix` has `rows` rows of forest.feature_count values, row-major; `explained` are indices of rows.
/// `expected` plus the contributions of a row equals its score, except for rounding of the sum. Cost: a walk
/// of every row.
Contributions contributions(const Forest& forest, std::span<const double> matrix, std::size_t rows,
                            std::span<const std::size_t> explained);

}  // namespace kscout
