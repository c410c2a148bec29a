#include <algorithm>
#include <cmath>

#include "core/fail.h"
#include "forest/forest.h"

namespace kscout {

namespace {

/// `offsets` starts at 0, never falls, and ends at `end`.
void check_offsets(std::span<const std::uint32_t> offsets, std::size_t end, std::string_view what) {
  if (offsets.empty() || offsets.front() != 0 || offsets.back() != end ||
      !std::is_sorted(offsets.begin(), offsets.end())) {
    fail(Errc::corrupt_data, "forest: {} do not rise from 0 to {}", what, end);
  }
}

void check_node(const Forest& forest, std::size_t tree, std::size_t at) {
  if (forest.feature[at] >= forest.feature_count) {
    fail(Errc::corrupt_data, "forest: tree {} asks feature {} of {}", tree, forest.feature[at],
         forest.feature_count);
  }
  const std::uint8_t decision = forest.decision[at];
  if (decision > Decision::most || Decision::missing(decision) > Missing::nan) {
    fail(Errc::corrupt_data, "forest: tree {} has decision type {} (0 to {})", tree, decision,
         Decision::most);
  }
  // Infinite thresholds are LightGBM's way to part NaN from all numbers.
  const double threshold = forest.threshold[at];
  if (std::isnan(threshold)) fail(Errc::corrupt_data, "forest: tree {} has threshold NaN", tree);
  if ((decision & Decision::categorical) == 0) return;
  const auto sets = static_cast<double>(forest.set_count());
  if (!(threshold >= 0 && threshold < sets) || threshold != std::floor(threshold)) {
    fail(Errc::corrupt_data, "forest: tree {} asks category set {} of {}", tree, threshold, sets);
  }
}

/// Every node but the root and every leaf is the child of exactly one node, with a smaller number: a tree.
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

}  // namespace kscout
