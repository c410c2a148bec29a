#include "forest/contributions.h"

#include "core/fail.h"

namespace kscout {

namespace {

/// One tree with what the rows say about it. Nodes come first, then leaves.
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
  /// Rows of the leaves are counted; now those of the nodes. A child has a larger number than its parent.
  void finish() {
    for (std::size_t at = sum_.size(); at-- > 1;) {
      sum_[parent_[at]] += sum_[at];
      count_[parent_[at]] += count_[at];
    }
  }
  double expected(std::size_t at) const {
    // A leaf's own value, not the mean of equal ones, which rounding may move.
    if (at >= nodes_) return forest_.leaf_value[first_leaf_ + at - nodes_];
    return sum_[at] / count_[at];
  }
  double root() const { return expected(0); }

  /// Credits the features on the way to a leaf that some row reached.
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
