#include "forest/exact.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <tuple>

namespace kscout {

/// The functions that are compiled for each instruction set.
struct ExactKernels {
  void (*rank_rows)(const double* values, std::uint8_t decision, std::span<const double> thresholds,
                    ExactForest::Ranks& ranks) noexcept;
  void (*add_leaves)(std::span<const std::uint32_t> tree_nodes, const ExactForest::Node* nodes,
                     const double* leaves, const ExactForest::Ranks* ranks, std::span<double> sums) noexcept;
};

#define KSCOUT_EXACT_SET exact_plain
#define KSCOUT_EXACT_TARGET
#define KSCOUT_EXACT_BYTES 16
#include "forest/exact-inl.h"
#if defined(__x86_64__)
#define KSCOUT_EXACT_SET exact_avx2
#define KSCOUT_EXACT_TARGET [[gnu::target("avx2")]]
#define KSCOUT_EXACT_BYTES 32
#include "forest/exact-inl.h"
#endif

namespace {

const ExactKernels& kernels_of([[maybe_unused]] InstructionSet set) noexcept {
#if defined(__x86_64__)
  if (set >= InstructionSet::avx2) return exact_avx2::kKernels;
#endif
  return exact_plain::kKernels;
}

constexpr std::uint32_t kMaxThresholds = 255;  // maximum per column: a rank is one byte

std::int8_t byte_of(std::size_t rank) noexcept {
  return static_cast<std::int8_t>(static_cast<std::ptrdiff_t>(rank) + INT8_MIN);
}

/// The leaf that a row reaches in a tree of `count` wide nodes.
std::size_t leaf_reached(const ExactForest::WideNode* node, std::size_t count,
                         const ExactForest::Ranks* ranks, std::size_t row) noexcept {
  std::size_t leaf = 0;
  while (count > 0) {
    const bool right = ranks[node->column].of_row[row] > node->position;
    const std::size_t step = node->step;
    count = right ? count - step : step - 1;
    leaf += right ? step : 0;
    node += right ? step : 1;
  }
  return leaf;
}

}  // namespace

ExactForest::ExactForest(const Forest& forest, std::span<const Feature> features, InstructionSet set)
    : kernels_(&kernels_of(set)), average_(forest.average) {
  const std::vector<WideNode> split_of = make_columns(forest, features);
  const std::size_t trees = forest.tree_count();
  bool narrow = columns_.size() <= 65536;
  for (std::size_t tree = 0; tree < trees; ++tree)
    narrow = narrow && forest.tree_leaves[tree + 1] - forest.tree_leaves[tree] <= 256;
  if (narrow) {
    nodes_.reserve(split_of.size());
  } else {
    wide_nodes_.reserve(split_of.size());
  }
  leaves_.reserve(forest.leaf_value.size());
  for (std::size_t tree = 0; tree < trees; ++tree) {
    add_tree(forest, tree, split_of);
    if (!narrow) continue;
    for (const WideNode& node : wide_nodes_) {
      nodes_.push_back({static_cast<std::uint16_t>(node.column), static_cast<std::uint8_t>(node.begin),
                        static_cast<std::uint8_t>(node.step), node.position});
    }
    wide_nodes_.clear();
  }
  if (narrow) wide_nodes_ = {};
  for (std::size_t i = 0; i < by_call_; ++i) {
    const std::span<const double> fixed = features[columns_[i].feature].fixed;
    fixed_ranks_.resize(fixed.size() * by_call_);
    for (std::size_t row = 0; row < fixed.size(); ++row)
      fixed_ranks_[row * by_call_ + i] = rank(columns_[i], fixed[row]);
  }
}

/// Groups the nodes by their splits. Fills columns_ and its related members; returns each node's column and
/// position.
std::vector<ExactForest::WideNode> ExactForest::make_columns(const Forest& forest,
                                                             std::span<const Feature> features) {
  // Varies, feature, decision, and threshold or category set.
  using Split = std::tuple<Varies, std::uint32_t, std::uint8_t, double, std::vector<std::uint32_t>>;
  std::map<Split, std::vector<std::uint32_t>> nodes_of;
  for (std::uint32_t node = 0; node < forest.threshold.size(); ++node) {
    const std::uint32_t feature = forest.feature[node];
    Split split(features[feature].varies, feature, forest.decision[node], forest.threshold[node], {});
    if (forest.decision[node] & Decision::categorical) {
      const auto set = static_cast<std::size_t>(forest.threshold[node]);
      std::get<3>(split) = 0;
      std::get<4>(split).assign(forest.set_bits.begin() + forest.set_words[set],
                                forest.set_bits.begin() + forest.set_words[set + 1]);
    }
    nodes_of[std::move(split)].push_back(node);
  }
  std::vector<WideNode> split_of(forest.threshold.size());
  for (const auto& [split, nodes] : nodes_of) {
    const auto& [varies, feature, decision, threshold, set] = split;
    const bool categorical = decision & Decision::categorical;
    if (columns_.empty() || categorical || columns_.back().feature != feature ||
        columns_.back().decision != decision || columns_.back().count == kMaxThresholds) {
      const std::size_t first = categorical ? set_bits_.size() : thresholds_.size();
      columns_.push_back({feature, decision, static_cast<std::uint32_t>(first), 0});
      by_call_ += varies < Varies::by_call;
      by_row_ += varies < Varies::by_row;
    }
    Column& column = columns_.back();
    const auto number = static_cast<std::uint32_t>(columns_.size() - 1);
    for (const std::uint32_t node : nodes)
      split_of[node] = {number, 0, 0, byte_of(categorical ? 0 : column.count)};
    if (!categorical) thresholds_.push_back(threshold);
    set_bits_.insert(set_bits_.end(), set.begin(), set.end());
    column.count += categorical ? static_cast<std::uint32_t>(set.size()) : 1;
  }
  return split_of;
}

/// Appends the tree to wide_nodes_ in preorder, with its leaves from left to right.
void ExactForest::add_tree(const Forest& forest, std::size_t tree, std::span<const WideNode> split_of) {
  const std::size_t first_node = forest.tree_nodes[tree], first_leaf = forest.tree_leaves[tree];
  tree_nodes_.push_back(forest.tree_nodes[tree + 1] - forest.tree_nodes[tree]);
  struct Visit {
    std::int32_t child;        ///< as Forest::left
    std::size_t right_of = 0;  ///< 1 + position of the node whose right child this is; 0: none
  };
  std::vector<Visit> open = {{tree_nodes_.back() == 0 ? -1 : 0}};
  std::uint32_t leaf = 0;
  while (!open.empty()) {
    const Visit visit = open.back();
    open.pop_back();
    if (visit.right_of != 0) {
      WideNode& parent = wide_nodes_[visit.right_of - 1];
      parent.step = leaf - parent.begin;
    }
    if (visit.child < 0) {
      leaves_.push_back(forest.leaf_value[first_leaf + static_cast<std::size_t>(~visit.child)]);
      ++leaf;
      continue;
    }
    const std::size_t node = first_node + static_cast<std::size_t>(visit.child);
    wide_nodes_.push_back({split_of[node].column, leaf, 0, split_of[node].position});
    open.push_back({forest.right[node], wide_nodes_.size()});
    open.push_back({forest.left[node]});
  }
}

std::int8_t ExactForest::rank(const Column& column, double value) const noexcept {
  if (column.decision & Decision::categorical) {
    return byte_of(!categorical_left(value, set_bits_, column.first, column.first + column.count));
  }
  const double compared = compared_value(value, column.decision);
  const auto all = std::span(thresholds_).subspan(column.first, column.count);
  const auto goes_right = [compared](double threshold) { return !(compared <= threshold); };
  return byte_of(static_cast<std::size_t>(std::ranges::partition_point(all, goes_right) - all.begin()));
}

void ExactForest::scores(std::span<const double* const> values, std::span<const std::uint32_t> rows,
                         std::span<double> out, Scratch& scratch) const {
  if (scratch.size() < columns_.size()) scratch.resize(columns_.size());
  Ranks* const ranks = scratch.data();
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const std::int8_t* const fixed = fixed_ranks_.data() + rows[row] * by_call_;
    for (std::size_t i = 0; i < by_call_; ++i) ranks[i].of_row[row] = fixed[i];
  }
  for (std::size_t i = by_call_; i < by_row_; ++i) {
    std::memset(ranks[i].of_row, rank(columns_[i], *values[columns_[i].feature]), block);
  }
  for (std::size_t i = by_row_; i < columns_.size(); ++i) {
    const Column& column = columns_[i];
    const double* const of_rows = values[column.feature];
    if (column.decision & Decision::categorical) {
      for (std::size_t row = 0; row < block; ++row) ranks[i].of_row[row] = rank(column, of_rows[row]);
    } else {
      kernels_->rank_rows(of_rows, column.decision,
                          std::span(thresholds_).subspan(column.first, column.count), ranks[i]);
    }
  }
  std::array<double, block> memory{};
  const std::span<double> sums = std::span(memory).first(out.size());
  if (wide_nodes_.empty()) {
    kernels_->add_leaves(tree_nodes_, nodes_.data(), leaves_.data(), ranks, sums);
  } else {
    const WideNode* nodes = wide_nodes_.data();
    const double* leaves = leaves_.data();
    for (const std::uint32_t count : tree_nodes_) {
      for (std::size_t row = 0; row < out.size(); ++row)
        sums[row] += leaves[leaf_reached(nodes, count, ranks, row)];
      nodes += count;
      leaves += count + 1;
    }
  }
  const double trees = average_ && !tree_nodes_.empty() ? static_cast<double>(tree_nodes_.size()) : 1;
  for (std::size_t row = 0; row < out.size(); ++row) out[row] = sums[row] / trees;
}

}  // namespace kscout
