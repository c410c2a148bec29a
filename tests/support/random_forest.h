#pragma once
/// \file
/// Draws random forests and rows, to compare evaluators on cases that trained models rarely contain.
///
///     RandomForest draw({.trees = 40, .max_leaves = 255}, seed);
///     const Forest forest = draw.forest();
///     const std::vector<double> rows = draw.rows(forest, 1000);     // row-major, forest.feature_count each
///
/// Equal options and seeds give equal forests and rows on every machine.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "forest/forest.h"

namespace kscout::toy {

struct RandomForestOptions {
  std::uint32_t features = 8;
  std::size_t trees = 20;
  std::uint32_t min_leaves = 1;  ///< 1: trees that are one leaf occur
  std::uint32_t max_leaves = 31;
  double categorical = 0.2;             ///< share of categorical nodes
  std::uint32_t max_category = 200;     ///< largest category of a set: 200 needs 7 words
  std::uint32_t missing_kinds = 0b111;  ///< bit = Missing; which of them nodes may have
  bool average = false;
};

class RandomForest {
 public:
  RandomForest(const RandomForestOptions& options, std::uint64_t seed) : options_(options), rng_(seed) {}

  Forest forest() {
    Forest forest;
    forest.feature_count = options_.features;
    forest.average = options_.average;
    for (std::size_t tree = 0; tree < options_.trees; ++tree) add_tree(forest);
    return forest;
  }

  /// A value for a feature: ordinary, or one where implementations may differ (the exact threshold of some
  /// node, its neighbours, NaN, zeros, values that count as zero, infinities, valid and invalid categories).
  double value(const Forest& forest) {
    static constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    static constexpr double inf = std::numeric_limits<double>::infinity();
    static constexpr std::array special = {nan,    nan,    0.0,  -0.0, 1e-36, -1e-36,      1e-35,
                                           -1e-35, -1.0,   -0.5, 3e9,  -3e9,  inf,         -inf,
                                           1e300,  -1e300, 31.0, 32.0, 4.7,   2147483647.0};
    switch (below(8)) {
      case 0:
        return special[below(special.size())];
      case 1:
      case 2:
        return near_threshold(forest);
      case 3:
        return static_cast<double>(below(options_.max_category + 40));
      default:
        return number();
    }
  }

  /// `count` rows of value(), row-major.
  std::vector<double> rows(const Forest& forest, std::size_t count) {
    std::vector<double> matrix(count * forest.feature_count);
    for (double& x : matrix) x = value(forest);
    return matrix;
  }

  /// Uniform in [0, limit).
  std::size_t below(std::size_t limit) { return static_cast<std::size_t>(rng_() % limit); }

 private:
  double fraction() { return static_cast<double>(rng_() >> 11) * 0x1p-53; }

  /// Both signs, several magnitudes, sometimes a round number: features share values with thresholds.
  double number() {
    const double x = (2 * fraction() - 1) * std::exp2(static_cast<double>(below(12)));
    return below(3) == 0 ? std::round(x) : x;
  }

  double threshold() {
    const auto dice = below(20);
    if (dice == 0) return 1.0000000180025095e-35;  // LightGBM's usual threshold beside zero
    if (dice == 1) return 0;
    if (dice == 2) return below(2) == 0 ? 1e300 : -1e300;
    if (dice == 3) return std::numeric_limits<double>::infinity();  // parts NaN from all numbers
    return number();
  }

  double near_threshold(const Forest& forest) {
    if (forest.threshold.empty()) return number();
    const double x = forest.threshold[below(forest.threshold.size())];
    switch (below(4)) {
      case 0:
        return std::nextafter(x, std::numeric_limits<double>::infinity());
      case 1:
        return std::nextafter(x, -std::numeric_limits<double>::infinity());
      default:
        return x;
    }
  }

  Missing missing() {
    for (;;) {
      const auto kind = below(3);
      if ((options_.missing_kinds >> kind) & 1U) return static_cast<Missing>(kind);
    }
  }

  void add_node(Forest& forest) {
    std::uint8_t decision = static_cast<std::uint8_t>(static_cast<unsigned>(missing()) << 2);
    if (below(2) == 0) decision |= Decision::default_left;
    if (fraction() < options_.categorical) {
      decision |= Decision::categorical;
      forest.threshold.push_back(static_cast<double>(forest.set_count()));
      const std::size_t words = 1 + below(options_.max_category / 32 + 1);
      for (std::size_t w = 0; w < words; ++w) forest.set_bits.push_back(static_cast<std::uint32_t>(rng_()));
      forest.set_words.push_back(static_cast<std::uint32_t>(forest.set_bits.size()));
    } else {
      forest.threshold.push_back(threshold());
    }
    forest.decision.push_back(decision);
    forest.feature.push_back(static_cast<std::uint32_t>(below(options_.features)));
  }

  /// Grows as training does: each node takes the place of a leaf, so that children have larger numbers.
  void add_tree(Forest& forest) {
    const auto leaves = options_.min_leaves +
                        static_cast<std::uint32_t>(below(options_.max_leaves - options_.min_leaves + 1));
    const std::size_t first = forest.threshold.size();
    const bool chain = below(6) == 0;                   // as deep as it can be
    std::vector<std::int32_t*> place(leaves, nullptr);  // where leaf i is pointed to from
    forest.left.resize(first + leaves - 1);
    forest.right.resize(first + leaves - 1);
    for (std::uint32_t node = 0; node + 1 < leaves; ++node) {
      const std::size_t leaf = chain ? node : below(node + 1);
      add_node(forest);
      if (place[leaf]) *place[leaf] = static_cast<std::int32_t>(node);
      place[leaf] = &forest.left[first + node];
      place[node + 1] = &forest.right[first + node];
      if (below(2) == 0) std::swap(place[leaf], place[node + 1]);
      *place[leaf] = ~static_cast<std::int32_t>(leaf);
      *place[node + 1] = ~static_cast<std::int32_t>(node + 1);
    }
    for (std::uint32_t leaf = 0; leaf < leaves; ++leaf) {
      forest.leaf_value.push_back((2 * fraction() - 1) * std::exp2(-static_cast<double>(below(8))));
    }
    forest.tree_nodes.push_back(static_cast<std::uint32_t>(forest.threshold.size()));
    forest.tree_leaves.push_back(static_cast<std::uint32_t>(forest.leaf_value.size()));
  }

  RandomForestOptions options_;
  std::mt19937_64 rng_;
};

}  // namespace kscout::toy
