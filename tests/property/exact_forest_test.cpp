// Checks that an ExactForest and the plain evaluation give equal bits, for random forests, rows and varying
// features.
#include <bit>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "forest/exact.h"
#include "support/random_forest.h"

namespace kscout {
namespace {

constexpr std::size_t kBlock = ExactForest::block;

/// What this CPU runs.
std::vector<InstructionSet> sets_here() {
  std::vector<InstructionSet> sets = {InstructionSet::scalar};
  if (best_instruction_set() >= InstructionSet::avx2) sets.push_back(InstructionSet::avx2);
  return sets;
}

/// Says so where the other tests are silent.
TEST(ExactForest, EveryInstructionSetIsTestedHere) {
  std::size_t sets = 1;
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "this CPU lacks AVX2, NOT TESTED here";
  sets = 2;
#endif
  EXPECT_EQ(sets_here().size(), sets);
}

/// Rows of one call after another, whose features vary as `varies` says; half of the rows have the features
/// that never vary of another row.
class DrawnRows {
 public:
  DrawnRows(toy::RandomForest& draw, const Forest& forest, std::span<const Varies> varies, std::size_t rows)
      : varies_(varies), matrix_(draw.rows(forest, rows)) {
    for (std::size_t row = 0; row < rows; ++row) {
      like_.push_back(static_cast<std::uint32_t>(draw.below(2) == 0 ? row : draw.below(rows)));
    }
    const std::vector<double> drawn = matrix_;
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t f = 0; f < varies.size(); ++f) {
        const std::size_t from = varies[f] == Varies::never     ? like_[row]
                                 : varies[f] == Varies::by_call ? row / kBlock * kBlock
                                                                : row;
        matrix_[row * varies.size() + f] = drawn[from * varies.size() + f];
      }
    }
    for (std::size_t f = 0; f < varies.size(); ++f) {
      fixed_.emplace_back();
      for (std::size_t row = 0; row < rows; ++row) fixed_.back().push_back(drawn[row * varies.size() + f]);
    }
  }

  std::vector<ExactForest::Feature> features() const {
    std::vector<ExactForest::Feature> features;
    for (std::size_t f = 0; f < varies_.size(); ++f) {
      features.push_back({varies_[f], varies_[f] == Varies::never ? fixed_[f] : std::span<const double>()});
    }
    return features;
  }

  std::vector<double> plain_scores(const Forest& forest) const {
    std::vector<double> scores(like_.size());
    forest.predict(matrix_.data(), varies_.size(), 1, scores);
    return scores;
  }

  /// Block by block.
  std::vector<double> exact_scores(const ExactForest& forest, ExactForest::Scratch& scratch) const {
    std::vector<double> scores(like_.size());
    for (std::size_t first = 0; first < scores.size(); first += kBlock) {
      const std::size_t count = std::min(kBlock, scores.size() - first);
      std::vector<double> columns(varies_.size() * kBlock, 1e9);
      std::vector<const double*> values;
      for (std::size_t f = 0; f < varies_.size(); ++f) {
        for (std::size_t row = 0; row < count; ++row)
          columns[f * kBlock + row] = matrix_[(first + row) * varies_.size() + f];
        values.push_back(varies_[f] == Varies::never ? nullptr : columns.data() + f * kBlock);
      }
      forest.scores(values, std::span(like_).subspan(first, count), std::span(scores).subspan(first, count),
                    scratch);
    }
    return scores;
  }

 private:
  std::span<const Varies> varies_;
  std::vector<double> matrix_;
  std::vector<std::uint32_t> like_;         ///< by row: whose fixed values it has
  std::vector<std::vector<double>> fixed_;  ///< by feature and row
};

std::vector<Varies> draw_varies(toy::RandomForest& draw, const Forest& forest) {
  std::vector<Varies> varies(forest.feature_count);
  for (Varies& of : varies) of = static_cast<Varies>(draw.below(3));
  return varies;
}

void compare(const Forest& forest, std::span<const Varies> varies, toy::RandomForest& draw,
             std::size_t rows) {
  for (const InstructionSet set : sets_here()) {
    SCOPED_TRACE(fmt::format("set {} rows {}", static_cast<int>(set), rows));
    const DrawnRows drawn(draw, forest, varies, rows);
    const ExactForest exact(forest, drawn.features(), set);
    ExactForest::Scratch scratch;
    for (int call = 0; call < 2; ++call) {  // the second with what the first left
      const auto expected = drawn.plain_scores(forest), scores = drawn.exact_scores(exact, scratch);
      for (std::size_t r = 0; r < rows; ++r) {
        ASSERT_EQ(std::bit_cast<std::uint64_t>(scores[r]), std::bit_cast<std::uint64_t>(expected[r]))
            << "row " << r;
      }
    }
  }
}

/// Narrow trees have at most 256 leaves.
TEST(ExactForest, EqualsThePlainWalkBitForBit) {
  for (std::uint64_t seed = 0; seed < 240; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    constexpr std::array max_leaves = {1u, 2u, 3u, 31u, 32u, 64u, 255u, 256u, 257u, 1500u};
    const std::uint32_t most = max_leaves[seed % max_leaves.size()];
    toy::RandomForest draw({.features = 1 + static_cast<std::uint32_t>(seed % 13),
                            .trees = seed % 37,
                            .min_leaves = seed % 3 == 0 ? most : 1,
                            .max_leaves = most,
                            .average = seed % 2 == 0},
                           seed);
    const Forest forest = draw.forest();
    compare(forest, draw_varies(draw, forest), draw, 1 + seed % 70);
    if (HasFatalFailure()) return;
  }
}

/// More thresholds of one feature than a rank counts; more columns than a narrow node names.
TEST(ExactForest, ManyThresholdsAndManyColumns) {
  for (const double categorical : {0.0, 0.5}) {
    for (const Varies varies : {Varies::never, Varies::by_call, Varies::by_row}) {
      toy::RandomForest draw(
          {.features = 1, .trees = 60, .min_leaves = 30, .max_leaves = 32, .categorical = categorical}, 7);
      const Forest forest = draw.forest();
      ASSERT_GT(std::set(forest.threshold.begin(), forest.threshold.end()).size(), 3 * 255u);
      compare(forest, std::span(&varies, 1), draw, 40);
      if (HasFatalFailure()) return;
    }
  }
}

/// Deeper than a stack of calls would bear.
TEST(ExactForest, AChainOfAHundredThousandNodes) {
  constexpr std::int32_t kNodes = 100'000;
  Forest forest;
  forest.feature_count = 1;
  for (std::int32_t node = 0; node < kNodes; ++node) {
    forest.feature.push_back(0);
    forest.threshold.push_back(node % 1000);
    forest.decision.push_back(0);
    const std::int32_t next = node + 1 < kNodes ? node + 1 : ~kNodes;
    forest.left.push_back(node % 2 == 0 ? ~node : next);
    forest.right.push_back(node % 2 == 0 ? next : ~node);
  }
  for (std::int32_t leaf = 0; leaf <= kNodes; ++leaf) forest.leaf_value.push_back(leaf);
  forest.tree_nodes = {0, kNodes};
  forest.tree_leaves = {0, kNodes + 1};
  check(forest);
  toy::RandomForest draw({.features = 1}, 3);
  compare(forest, std::array{Varies::by_row}, draw, 33);
}

}  // namespace
}  // namespace kscout
