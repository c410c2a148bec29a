// Leaves rounded to multiples of one unit, and what that costs.
#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "forest/sliced_plan.h"

namespace kscout {

namespace {

constexpr double kDoubleStep = 0x1p-52;

double leaf(const SlicedPlan& plan, std::size_t at) {
  return plan.best == Best::highest ? plan.leaf_value[at] : -plan.leaf_value[at];
}

std::pair<double, double> leaf_range(const SlicedPlan& plan, const SlicedTree& tree) {
  double lowest = leaf(plan, tree.first_leaf), highest = lowest;
  for (std::size_t at = tree.first_leaf; at < tree.first_leaf + tree.leaves; ++at) {
    lowest = std::min(lowest, leaf(plan, at));
    highest = std::max(highest, leaf(plan, at));
  }
  return {lowest, highest};
}

/// Returns the largest rounded leaf. Where no unit fits, all are zero.
std::uint64_t round_tree(SlicedPlan& plan, SlicedTree& tree, bool unit_fits) {
  const auto [lowest, highest] = leaf_range(plan, tree);
  std::uint64_t most = 0;
  for (std::size_t at = tree.first_leaf; at < tree.first_leaf + tree.leaves; ++at) {
    const double above = leaf(plan, at) - lowest;
    const auto rounded = static_cast<std::uint64_t>(unit_fits ? above / plan.unit + 0.5 : 0);
    most = std::max(most, rounded);
    tree.error = std::max(tree.error, std::abs(above - static_cast<double>(rounded) * plan.unit));
    plan.leaf_code[at] = spread_code(static_cast<std::uint32_t>(rounded));
  }
  // The subtractions and products above round, too.
  tree.error += 8 * kDoubleStep * std::max(std::abs(lowest), std::abs(highest));
  return most;
}

}  // namespace

void round_leaves(SlicedPlan& plan) {
  double range_sum = 0, range_most = 0, magnitude = 0;
  std::size_t ranges = 0;
  for (const SlicedTree& tree : plan.trees) {
    const auto [lowest, highest] = leaf_range(plan, tree);
    range_sum += highest - lowest;
    range_most = std::max(range_most, highest - lowest);
    ranges += highest > lowest;
    magnitude += std::max(std::abs(lowest), std::abs(highest));
  }
  // Nine bits for the average tree: more planes cost every row, fewer leave more rows for exact sums. Codes
  // hold kSlicedCodeBits of a leaf, and a sum should fit 40.
  const double average = ranges > 0 ? range_sum / static_cast<double>(ranges) : 0;
  plan.unit = std::max({average * 0x1p-9, std::ldexp(range_most, 1 - kSlicedCodeBits), range_sum * 0x1p-39});
  // Leaves near the largest double: no unit fits, so rounding tells nothing and every row gets its exact
  // sum.
  const bool unit_fits = std::isfinite(range_sum);
  if (!(plan.unit > 0) || !unit_fits) plan.unit = 1;
  // A sum of n doubles errs by at most (n - 1) 2^-53 of the sum of magnitudes (Higham, 2002, section 4.2);
  // the mean rounds once more. Twice that, and room for rounding in this bound itself.
  const auto trees = static_cast<double>(plan.trees.size());
  plan.double_error = (trees + 8) * kDoubleStep * magnitude;

  plan.leaf_code.resize(plan.leaf_value.size() + kSlicedRoom);  // vectors are read whole
  std::uint64_t most_sum = 0;
  for (SlicedTree& tree : plan.trees) most_sum += round_tree(plan, tree, unit_fits);
  plan.planes = static_cast<std::size_t>(std::bit_width(most_sum));
}

}  // namespace kscout
