#include "forest/exact.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <numeric>
#include <tuple>

namespace kscout {

/// The functions that are compiled for each instruction set.
struct ExactKernels {
  void (*rank_rows)(const double* values, std::uint8_t decision, std::span<const double> thresholds,
                    ExactForest::Ranks& ranks) noexcept;
  void (*find_leaves)(std::span<const ExactForest::Tree> trees, const ExactForest::Node* nodes,
                      const ExactForest::Ranks* ranks, ExactForest::Leaves* leaves) noexcept;
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

/// For each category set of the forest, the first set that equals it.
std::vector<double> distinct_sets(const Forest& forest) {
  std::map<std::vector<std::uint32_t>, double> known;
  std::vector<double> first;
  for (std::size_t set = 0; set < forest.set_count(); ++set) {
    std::vector<std::uint32_t> bits(forest.set_bits.begin() + forest.set_words[set],
                                    forest.set_bits.begin() + forest.set_words[set + 1]);
    first.push_back(known.try_emplace(std::move(bits), static_cast<double>(set)).first->second);
  }
  return first;
}

constexpr std::uint32_t kMaxThresholds = 255;  // maximum per column: a rank is one byte
// Maximum number of nodes of a narrow tree, and of its column numbers.
constexpr std::uint32_t kMaxNarrow = 255;

std::int8_t byte_of(std::size_t rank) noexcept {
  return static_cast<std::int8_t>(static_cast<std::ptrdiff_t>(rank) + INT8_MIN);
}

}  // namespace

ExactForest::ExactForest(const Forest& forest, std::span<const Feature> features, InstructionSet set)
    : kernels_(&kernels_of(set)), average_(forest.average) {
  const std::vector<Split> split_of = make_columns(forest, features);
  for (std::size_t tree = 0; tree < forest.tree_count(); ++tree) add_tree(forest, tree, split_of);
  rank_fixed(features);
}

/// Sorts the nodes by their splits. Fills columns_ and its related members.
std::vector<ExactForest::Split> ExactForest::make_columns(const Forest& forest,
                                                          std::span<const Feature> features) {
  const std::vector<double> set_of = distinct_sets(forest);
  const auto threshold = [&](std::uint32_t node) {
    const double value = forest.threshold[node];
    return forest.decision[node] & Decision::categorical ? set_of[static_cast<std::size_t>(value)] : value;
  };
  const auto column_key = [&](std::uint32_t node) {
    return std::tuple(features[forest.feature[node]].varies, forest.feature[node], forest.decision[node]);
  };
  std::vector<std::uint32_t> order(forest.threshold.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::sort(order, {},
                    [&](std::uint32_t node) { return std::tuple(column_key(node), threshold(node)); });

  std::vector<Split> split_of(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::uint32_t node = order[i], before = order[i == 0 ? 0 : i - 1];
    const bool categorical = forest.decision[node] & Decision::categorical;
    const bool same_feature = i > 0 && column_key(node) == column_key(before);
    if (same_feature && threshold(node) == threshold(before)) {
      split_of[node] = split_of[before];
      continue;
    }
    if (!same_feature || categorical || columns_.back().count == kMaxThresholds) {
      columns_.push_back({.feature = forest.feature[node], .decision = forest.decision[node]});
      columns_.back().first = static_cast<std::uint32_t>(categorical ? set_bits_.size() : thresholds_.size());
      by_call_ += features[forest.feature[node]].varies < Varies::by_call;
      by_row_ += features[forest.feature[node]].varies < Varies::by_row;
    }
    Column& column = columns_.back();
    split_of[node] = {static_cast<std::uint32_t>(columns_.size() - 1), categorical ? 0 : column.count};
    if (categorical) {
      const auto set = static_cast<std::size_t>(threshold(node));
      const std::uint32_t begin = forest.set_words[set], end = forest.set_words[set + 1];
      set_bits_.insert(set_bits_.end(), forest.set_bits.begin() + begin, forest.set_bits.begin() + end);
      column.count = end - begin;
    } else {
      thresholds_.push_back(threshold(node));
      ++column.count;
    }
  }
  return split_of;
}

/// Appends the tree in preorder, with its leaves from left to right.
void ExactForest::add_tree(const Forest& forest, std::size_t tree, std::span<const Split> split_of) {
  const std::size_t first_node = forest.tree_nodes[tree], first_leaf = forest.tree_leaves[tree];
  const std::uint32_t count = forest.tree_nodes[tree + 1] - forest.tree_nodes[tree];
  const auto own = split_of.subspan(first_node, count);
  const bool wide = count > kMaxNarrow ||
                    std::ranges::any_of(own, [](const Split& split) { return split.column > kMaxNarrow; });
  trees_.push_back({count, wide});
  struct Visit {
    std::int32_t child;        ///< as Forest::left
    std::size_t right_of = 0;  ///< 1 + position of the node whose right child this is; 0: none
  };
  std::vector<WideNode> nodes;
  std::vector<std::uint32_t> begin;  ///< first leaf below, by node
  std::vector<Visit> open = {{count == 0 ? -1 : 0}};
  std::uint32_t leaf = 0;
  while (!open.empty()) {
    const Visit visit = open.back();
    open.pop_back();
    if (visit.right_of != 0) nodes[visit.right_of - 1].step = leaf - begin[visit.right_of - 1];
    if (visit.child < 0) {
      leaves_.push_back(forest.leaf_value[first_leaf + static_cast<std::size_t>(~visit.child)]);
      ++leaf;
      continue;
    }
    const auto node = static_cast<std::size_t>(visit.child);
    nodes.push_back({own[node].column, 0, byte_of(own[node].position)});
    begin.push_back(leaf);
    open.push_back({forest.right[first_node + node], nodes.size()});
    open.push_back({forest.left[first_node + node]});
  }
  if (wide) wide_nodes_.insert(wide_nodes_.end(), nodes.begin(), nodes.end());
  for (std::size_t i = 0; i < nodes.size() && !wide; ++i) {
    nodes_.push_back({static_cast<std::uint8_t>(nodes[i].column), static_cast<std::uint8_t>(begin[i]),
                      static_cast<std::uint8_t>(nodes[i].step), nodes[i].position});
  }
}

std::size_t ExactForest::splits() const noexcept {
  std::size_t count = 0;
  for (const Column& column : columns_) count += column.decision & Decision::categorical ? 1 : column.count;
  return count;
}

std::int8_t ExactForest::rank(const Column& column, double value) const noexcept {
  if (column.decision & Decision::categorical) {
    return byte_of(!categorical_left(value, set_bits_, column.first, column.first + column.count));
  }
  const double compared = compared_value(value, column.decision);
  const auto all = thresholds(column);
  const auto goes_right = [compared](double threshold) { return !(compared <= threshold); };
  return byte_of(static_cast<std::size_t>(std::ranges::partition_point(all, goes_right) - all.begin()));
}

void ExactForest::rank_rows(const Column& column, const double* values, Ranks& ranks) const noexcept {
  if (column.decision & Decision::categorical) {
    for (std::size_t row = 0; row < block; ++row) ranks[row] = rank(column, values[row]);
  } else {
    kernels_->rank_rows(values, column.decision, thresholds(column), ranks);
  }
}

void ExactForest::rank_fixed(std::span<const Feature> features) {
  std::array<double, block> values{};
  Ranks ranks;
  for (std::size_t i = 0; i < by_call_; ++i) {
    const std::span<const double> all = features[columns_[i].feature].fixed;
    fixed_ranks_.resize(all.size() * by_call_);
    for (std::size_t first = 0; first < all.size(); first += block) {
      const auto some = all.subspan(first, std::min(block, all.size() - first));
      std::ranges::copy(some, values.begin());
      rank_rows(columns_[i], values.data(), ranks);
      for (std::size_t row = 0; row < some.size(); ++row)
        fixed_ranks_[(first + row) * by_call_ + i] = ranks[row];
    }
  }
}

void ExactForest::rank_values(std::span<const double* const> values, std::span<const std::uint32_t> rows,
                              Scratch& scratch) const noexcept {
  Scratch::Line* const lines = scratch.lines_.data();
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const std::int8_t* const ranks = fixed_ranks_.data() + rows[row] * by_call_;
    for (std::size_t i = 0; i < by_call_; ++i) lines[i].ranks[row] = ranks[i];
  }
  for (std::size_t i = by_call_; i < by_row_; ++i) {
    std::memset(lines[i].ranks, rank(columns_[i], *values[columns_[i].feature]), block);
  }
  for (std::size_t i = by_row_; i < columns_.size(); ++i) {
    rank_rows(columns_[i], values[columns_[i].feature], lines[i].ranks);
  }
}

std::size_t ExactForest::wide_leaf(const WideNode* nodes, std::size_t count, const Ranks* ranks,
                                   std::size_t row) noexcept {
  std::size_t before = 0;  // number of leaves to the left
  for (std::size_t below = count, at = 0; below > 0;) {
    const bool right = ranks[nodes[at].column][row] > nodes[at].position;
    const std::size_t step = nodes[at].step;
    below = right ? below - step : step - 1;
    before += right ? step : 0;
    at += right ? step : 1;
  }
  return before;
}

void ExactForest::scores(std::span<const double* const> values, std::span<const std::uint32_t> rows,
                         std::span<double> out, Scratch& scratch) const noexcept {
  rank_values(values, rows, scratch);
  const Ranks* const ranks = &scratch.lines_.data()->ranks;
  Leaves* const reached = &scratch.reached_.data()->leaves;
  kernels_->find_leaves(trees_, nodes_.data(), ranks, reached);
  std::array<double, block> sums{};
  const WideNode* wide = wide_nodes_.data();
  const double* leaf = leaves_.data();
  for (std::size_t t = 0; t < trees_.size(); ++t) {
    const std::uint32_t count = trees_[t].nodes;
    if (trees_[t].wide) {
      for (std::size_t row = 0; row < out.size(); ++row)
        sums[row] += leaf[wide_leaf(wide, count, ranks, row)];
      wide += count;
    } else if (t + 1 < trees_.size() && !trees_[t + 1].wide) {
      // Two trees at once: fewer sums are read and written.
      const double* const second = leaf + count + 1;
      for (std::size_t row = 0; row < out.size(); ++row)
        sums[row] = sums[row] + leaf[reached[t][row]] + second[reached[t + 1][row]];
      leaf = second + trees_[++t].nodes + 1;
      continue;
    } else {
      for (std::size_t row = 0; row < out.size(); ++row) sums[row] += leaf[reached[t][row]];
    }
    leaf += count + 1;
  }
  const double trees = average_ && !trees_.empty() ? static_cast<double>(trees_.size()) : 1;
  for (std::size_t row = 0; row < out.size(); ++row) out[row] = sums[row] / trees;
}

}  // namespace kscout
