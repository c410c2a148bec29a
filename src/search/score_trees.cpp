#include "search/score_trees.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace kscout {

namespace {

constexpr int kTriedSplits = 8;       // of each node, drawn at random; the best is taken
constexpr std::size_t kLeafRows = 2;  // a node of so few is not split

}  // namespace

double ScoreTrees::at(std::uint32_t config, std::uint32_t axis) const noexcept {
  if (axis < space_.axes()) return space_.point(config)[axis];
  return std::isfinite(prior_[config]) ? prior_[config] : std::numeric_limits<double>::lowest();
}

bool ScoreTrees::goes_left(const Node& node, std::uint32_t config) const noexcept {
  const double value = at(config, node.axis);
  return node.axis < space_.axes() && !space_.ordered(node.axis) ? value == node.value : value <= node.value;
}

void ScoreTrees::fit(std::span<const std::uint32_t> configs, std::span<const double> scores,
                     const Random& random) {
  configs_ = configs;
  scores_ = scores;
  nodes_.assign(trees, {});
  std::vector<std::uint32_t> rows(configs.size());
  for (std::size_t tree = 0; tree < trees; ++tree) {
    std::iota(rows.begin(), rows.end(), 0u);
    grow(tree, rows, random);
  }
  configs_ = {};
  scores_ = {};
}

double ScoreTrees::of(std::size_t tree, std::uint32_t config) const noexcept {
  const Node* node = &nodes_[tree];
  while (node->left != 0) node = &nodes_[node->left + (goes_left(*node, config) ? 0 : 1)];
  return node->value;
}

bool ScoreTrees::best_split(std::span<const std::uint32_t> rows, const Random& random, Split& best) const {
  const std::size_t axes = space_.axes() + (prior_.empty() ? 0 : 1);
  best.spread = std::numeric_limits<double>::infinity();
  for (int tried = 0; tried < kTriedSplits; ++tried) {
    Node node;
    node.axis = random(axes);
    // The value of a row that is drawn: each side gets something unless all others are on its side.
    node.value = at(configs_[rows[random(rows.size())]], node.axis);
    double sum[2] = {}, square[2] = {};
    std::size_t count[2] = {};
    for (const std::uint32_t row : rows) {
      const int side = goes_left(node, configs_[row]) ? 0 : 1;
      sum[side] += scores_[row];
      square[side] += scores_[row] * scores_[row];
      ++count[side];
    }
    if (count[0] == 0 || count[1] == 0) continue;
    double spread = 0;
    for (const int side : {0, 1})
      spread += square[side] - sum[side] * sum[side] / static_cast<double>(count[side]);
    if (spread < best.spread) best = {node.axis, node.value, spread};
  }
  return std::isfinite(best.spread);
}

void ScoreTrees::grow(std::size_t node, std::span<std::uint32_t> rows, const Random& random) {
  double sum = 0;
  bool equal = true;
  for (const std::uint32_t row : rows) {
    sum += scores_[row];
    equal = equal && scores_[row] == scores_[rows.front()];
  }
  nodes_[node].value = sum / static_cast<double>(rows.size());
  Split split;
  if (equal || rows.size() <= kLeafRows || !best_split(rows, random, split)) return;
  nodes_[node].axis = split.axis;
  nodes_[node].value = split.value;
  const auto middle = std::partition(
      rows.begin(), rows.end(), [&](std::uint32_t row) { return goes_left(nodes_[node], configs_[row]); });
  const std::size_t left = nodes_.size();
  nodes_[node].left = static_cast<std::uint32_t>(left);
  nodes_.resize(left + 2);
  const auto at_left = static_cast<std::size_t>(middle - rows.begin());
  grow(left, rows.first(at_left), random);
  grow(left + 1, rows.subspan(at_left), random);
}

}  // namespace kscout
