
#include "forest/forest.h"

#include <algorithm>
#include <cmath>

#include "core/fail.h"

namespace kscout {

double Forest::predict(std::span<const double> row) const noexcept {
  return forest_score(*this, tree_count(), [&](std::uint32_t f) { return row[f]; });
}

std::size_t Forest::leaf_of(std::size_t tree, std::span<const double> row) const noexcept {
  return reached_leaf(*this, tree, [&](std::uint32_t f) { return row[f]; });
}

void Forest::predict(const double* matrix, std::size_t row_stride, std::size_t feature_stride,
                     std::span<double> scores) const noexcept {
  for (std::size_t r = 0; r < scores.size(); ++r) {
    const double* const row = matrix + r * row_stride;
    scores[r] = forest_score(*this, tree_count(), [&](std::uint32_t f) { return row[f * feature_stride]; });
  }
}

namespace {

/// Checks that `offsets` starts at 0, never decreases, and ends at `end`.
void check_offsets(std::span<const std::uint32_t> offsets, std::size_t end, std::string_view what) {
  if (offsets.empty() || offsets.front() != 0 || offsets.back() != end ||
      !std::is_sorted(offsets.begin(), offsets.end())) {
    fail(Errc::corrupt_data, "forest: {} do not rise from 0 to {}", what, end);
  }
}

void check_node(const Forest& forest, std::size_t tree, std::size_t at) {
  if (forest.feature[at] >= forest.feature_count) {
    fail(Errc::corrupt_data, "forest: tree {} refers to feature {} of {}", tree, forest.feature[at],
         forest.feature_count);
  }
  const std::uint8_t decision = forest.decision[at];
  if (decision > Decision::most || Decision::missing(decision) > Missing::nan) {
    fail(Errc::corrupt_data, "forest: tree {} has decision type {} (0 to {})", tree, decision,
         Decision::most);
  }
  // LightGBM writes infinite thresholds to separate NaN from all numbers.
  const double threshold = forest.threshold[at];
  if (std::isnan(threshold)) fail(Errc::corrupt_data, "forest: tree {} has threshold NaN", tree);
  if ((decision & Decision::categorical) == 0) return;
  const auto sets = static_cast<double>(forest.set_count());
  if (!(threshold >= 0 && threshold < sets) || threshold != std::floor(threshold)) {
    fail(Errc::corrupt_data, "forest: tree {} refers to category set {} of {}", tree, threshold, sets);
  }
}

/// Checks the shape of a tree: every leaf and every node except the root is the child of exactly one node,
/// which has a smaller number.
void check_shape(const Forest& forest, std::size_t tree, std::vector<std::uint8_t>& seen) {
  const std::size_t first = forest.tree_nodes[tree], nodes = forest.tree_nodes[tree + 1] - first;
  const std::size_t leaves = forest.tree_leaves[tree + 1] - forest.tree_leaves[tree];
  if (leaves != nodes + 1) {
    fail(Errc::corrupt_data, "forest: tree {} has {} nodes and {} leaves", tree, nodes, leaves);
  }
  seen.assign(nodes + leaves, 0);
  for (std::size_t node = 0; node < nodes; ++node) {
    check_node(forest, tree, first + node);
    for (const std::int32_t child : {forest.left[first + node], forest.right[first + node]}) {
      const bool leaf = child < 0;
      const auto index = static_cast<std::size_t>(leaf ? ~child : child);
      if (leaf ? index >= leaves : index >= nodes || index <= node) {
        fail(Errc::corrupt_data, "forest: tree {} node {}: child {} is out of order or out of range", tree,
             node, child);
      }
      if (seen[leaf ? nodes + index : index]++ != 0) {
        fail(Errc::corrupt_data, "forest: tree {} node {}: child {} has two parents", tree, node, child);
      }
    }
  }
}

}  // namespace

Forest first_trees(const Forest& forest, std::size_t trees) {
  Forest first = forest;
  const std::size_t nodes = forest.tree_nodes[trees];
  first.tree_nodes.resize(trees + 1);
  first.tree_leaves.resize(trees + 1);
  first.threshold.resize(nodes);
  first.feature.resize(nodes);
  first.left.resize(nodes);
  first.right.resize(nodes);
  first.decision.resize(nodes);
  first.leaf_value.resize(forest.tree_leaves[trees]);
  return first;
}

void check(const Forest& forest) {
  const std::size_t nodes = forest.threshold.size();
  if (forest.feature.size() != nodes || forest.left.size() != nodes || forest.right.size() != nodes ||
      forest.decision.size() != nodes) {
    fail(Errc::corrupt_data, "forest: node arrays differ in length");
  }
  if (forest.tree_nodes.size() != forest.tree_leaves.size()) {
    fail(Errc::corrupt_data, "forest: {} trees of nodes, {} of leaves", forest.tree_nodes.size(),
         forest.tree_leaves.size());
  }
  check_offsets(forest.tree_nodes, nodes, "node offsets");
  check_offsets(forest.tree_leaves, forest.leaf_value.size(), "leaf offsets");
  check_offsets(forest.set_words, forest.set_bits.size(), "category offsets");
  std::vector<std::uint8_t> seen;
  for (std::size_t tree = 0; tree < forest.tree_count(); ++tree) check_shape(forest, tree, seen);
  for (const double value : forest.leaf_value) {
    if (!std::isfinite(value)) fail(Errc::corrupt_data, "forest: leaf value {}", value);
  }
}

namespace {

/// One tree with statistics of the rows. Nodes come first, then leaves.
class TreeMeans {
 public:
  TreeMeans(const Forest& forest, std::size_t tree)
      : forest_(forest),
        first_node_(forest.tree_nodes[tree]),
        first_leaf_(forest.tree_leaves[tree]),
        nodes_(forest.tree_nodes[tree + 1] - first_node_),
        sum_(nodes_ + forest.tree_leaves[tree + 1] - first_leaf_),
        count_(sum_.size()),
        parent_(sum_.size()) {
    for (std::size_t node = 0; node < nodes_; ++node) {
      parent_[place(forest.left[first_node_ + node])] = node;
      parent_[place(forest.right[first_node_ + node])] = node;
    }
  }

  void add_row(std::size_t leaf) {
    count_[nodes_ + leaf] += 1;
    sum_[nodes_ + leaf] += forest_.leaf_value[first_leaf_ + leaf];
  }
  /// Derives the row counts of nodes from those of leaves. A child has a larger number than its parent.
  void finish() {
    for (std::size_t at = sum_.size(); at-- > 1;) {
      sum_[parent_[at]] += sum_[at];
      count_[parent_[at]] += count_[at];
    }
  }
  double expected(std::size_t at) const {
    // The leaf's own value, because the mean of equal values may be rounded.
    if (at >= nodes_) return forest_.leaf_value[first_leaf_ + at - nodes_];
    return sum_[at] / count_[at];
  }
  double root() const { return expected(0); }

  /// Credits the features on the path to a leaf that some row reached.
  void credit(std::size_t leaf, double weight, std::vector<double>& by_feature) const {
    for (std::size_t at = nodes_ + leaf; at != 0; at = parent_[at]) {
      const std::size_t parent = parent_[at];
      by_feature[forest_.feature[first_node_ + parent]] += weight * (expected(at) - expected(parent));
    }
  }

 private:
  std::size_t place(std::int32_t child) const {
    return child < 0 ? nodes_ + static_cast<std::size_t>(~child) : static_cast<std::size_t>(child);
  }

  const Forest& forest_;
  std::size_t first_node_, first_leaf_, nodes_;
  std::vector<double> sum_, count_;
  std::vector<std::size_t> parent_;
};

}  // namespace

Contributions contributions(const Forest& forest, std::span<const double> matrix, std::size_t rows,
                            std::span<const std::size_t> explained) {
  if (rows == 0 || matrix.size() != rows * forest.feature_count) {
    fail(Errc::invalid_argument, "contributions: {} values for {} rows of {} features", matrix.size(), rows,
         forest.feature_count);
  }
  Contributions result;
  result.by_feature.assign(explained.size(), std::vector<double>(forest.feature_count));
  const double weight = forest.average ? 1.0 / static_cast<double>(forest.tree_count()) : 1;
  std::vector<std::size_t> leaf(rows);
  for (std::size_t tree = 0; tree < forest.tree_count(); ++tree) {
    TreeMeans means(forest, tree);
    for (std::size_t row = 0; row < rows; ++row) {
      leaf[row] = forest.leaf_of(tree, matrix.subspan(row * forest.feature_count, forest.feature_count));
      means.add_row(leaf[row]);
    }
    means.finish();
    result.expected += weight * means.root();
    for (std::size_t i = 0; i < explained.size(); ++i) {
      means.credit(leaf[explained[i]], weight, result.by_feature[i]);
    }
  }
  return result;
}

}  // namespace kscout
