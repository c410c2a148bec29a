// A SlicedForest and the plain walk give the same bits, for forests, rows and calls drawn at random.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include "core/device_facts.h"
#include "forest/sliced.h"
#include "forest/sliced_kernels.h"
#include "support/random_forest.h"

namespace kscout {
namespace {

/// Rows whose features are constant, fixed or the call's, alike in some rows or different in each; some are
/// never negative nor missing, as most features are.
struct DrawnRows {
  static constexpr std::uint32_t kEachRow = 3;  ///< the partition with a class for each row

  SlicedRows rows;
  std::vector<std::uint8_t> positive;       ///< by feature
  std::vector<std::vector<double>> values;  ///< by feature and class; fixed ones as they stand in `rows`

  DrawnRows(toy::RandomForest& draw, const Forest& forest, std::size_t count) {
    rows.rows = count;
    for (std::size_t p = 0; p <= kEachRow; ++p) {
      const std::size_t classes = p == kEachRow ? count : 1 + draw.below(std::min<std::size_t>(count, 40));
      std::vector<std::uint32_t> class_of(count);
      for (std::size_t r = 0; r < count; ++r) {
        class_of[r] = static_cast<std::uint32_t>(r < classes ? r : draw.below(classes));
      }
      rows.partitions.emplace_back(std::move(class_of));
    }
    for (std::uint32_t f = 0; f < forest.feature_count; ++f) {
      SlicedFeature feature;
      if (draw.below(4) != 0) feature.partition = static_cast<std::uint32_t>(draw.below(4));
      values.emplace_back(rows.classes(feature.partition));
      positive.push_back(draw.below(2) == 0);
      if (draw.below(3) == 0) {
        for (std::size_t c = 0; c < rows.classes(feature.partition); ++c)
          feature.fixed.push_back(value(draw, forest, f));
        values.back() = feature.fixed;
      }
      rows.features.push_back(std::move(feature));
    }
  }

  /// Whatever was drawn for the feature, each row has a value of its own, and each call others.
  void part_all_rows(std::size_t feature) {
    rows.features[feature] = {.partition = kEachRow, .fixed = {}};
    values[feature].resize(rows.rows);
  }

  void draw_call(toy::RandomForest& draw, const Forest& forest) {
    for (std::size_t f = 0; f < values.size(); ++f) {
      if (!rows.features[f].fixed.empty()) continue;
      for (double& to : values[f]) to = value(draw, forest, f);
    }
  }

  double value(toy::RandomForest& draw, const Forest& forest, std::size_t f) const {
    const double any = draw.value(forest);
    if (positive[f] == 0) return any;
    return any == any ? std::abs(any) : 0;
  }

  std::vector<const double*> pointers() const {
    std::vector<const double*> to;
    for (const auto& of : values) to.push_back(of.data());
    return to;
  }

  std::vector<double> matrix() const {
    std::vector<double> to;
    for (std::size_t r = 0; r < rows.rows; ++r) {
      for (std::size_t f = 0; f < values.size(); ++f) {
        const std::uint32_t partition = rows.features[f].partition;
        to.push_back(
            values[f][partition == SlicedFeature::one_value ? 0 : rows.partitions[partition].class_of[r]]);
      }
    }
    return to;
  }
};

/// The best allowed rows by the plain walk's scores.
std::vector<ScoredRow> plain_top(const std::vector<double>& scores, const std::vector<std::uint64_t>& allowed,
                                 std::size_t count, Best best) {
  std::vector<ScoredRow> rows;
  for (std::uint32_t r = 0; r < scores.size(); ++r) {
    if ((allowed[r / 64] >> (r % 64)) & 1) rows.push_back({r, scores[r]});
  }
  std::ranges::stable_sort(rows, [&](const ScoredRow& a, const ScoredRow& b) {
    return best == Best::highest ? a.score > b.score : a.score < b.score;
  });
  rows.resize(std::min(count, rows.size()));
  return rows;
}

struct Compiled {
  const SlicedKernels* kernels;
  bool runs_here;
};

std::vector<Compiled> all_kernels() {
  std::vector<Compiled> kernels = {{&kSlicedScalar, true}};
#if defined(__x86_64__)
  kernels.push_back({&kSlicedAvx2, (hwy::SupportedTargets() & HWY_AVX2) != 0});
  kernels.push_back({&kSlicedAvx512, (hwy::SupportedTargets() & HWY_AVX3) != 0});
  kernels.push_back({&kSlicedAvx512Dl, best_instruction_set() == InstructionSet::avx512_dl});
#endif
  return kernels;
}

std::vector<const SlicedKernels*> kernels_here() {
  std::vector<const SlicedKernels*> kernels;
  for (const Compiled& compiled : all_kernels()) {
    if (compiled.runs_here) kernels.push_back(compiled.kernels);
  }
  return kernels;
}

/// Says so where the other tests are silent.
TEST(SlicedForest, EveryInstructionSetIsTestedHere) {
  std::string absent;
  for (const Compiled& compiled : all_kernels()) {
    if (!compiled.runs_here) absent += fmt::format(" {}", compiled.kernels->name);
  }
  if (!absent.empty()) GTEST_SKIP() << "this CPU lacks instruction sets, NOT TESTED here:" << absent;
}

std::vector<std::uint32_t> family_order(std::size_t rows) {
  std::vector<std::uint32_t> order(rows);
  std::iota(order.begin(), order.end(), 0u);
  return order;
}

std::uint64_t bits_of(double value) { return std::bit_cast<std::uint64_t>(value); }

struct Seen {
  std::size_t constant = 0, sliced = 0, questions = 0, dropped = 0, dropped_early = 0;
  std::size_t by_ranks = 0, by_ranks_of_few = 0;  ///< the latter where others were dropped early
  std::size_t fewest_questions = SIZE_MAX;        ///< of a call
};

constexpr std::size_t kCalls = 3;
/// How many rows each call asks for; 0: any number.
using TopSizes = std::array<std::size_t, kCalls>;

void compare(const Forest& forest, DrawnRows& rows, toy::RandomForest& draw, Seen& seen,
             const TopSizes& top_sizes = {}) {
  const std::size_t count = rows.rows.rows, features = forest.feature_count;
  for (const SlicedKernels* kernels : kernels_here()) {
    const Best best = draw.below(2) == 0 ? Best::highest : Best::lowest;
    const SlicedForest sliced(forest, rows.rows, best, *kernels);
    SlicedForest::Scratch scratch(sliced);
    for (std::size_t call = 0; call < kCalls; ++call) {
      SCOPED_TRACE(fmt::format("{} call {} rows {}", kernels->name, call, count));
      rows.draw_call(draw, forest);
      const auto pointers = rows.pointers();
      const auto matrix = rows.matrix();
      std::vector<double> expected(count), scores(count);
      forest.predict(matrix.data(), features, 1, expected);
      sliced.scores(pointers, scores, scratch);
      for (std::size_t r = 0; r < count; ++r)
        ASSERT_EQ(bits_of(scores[r]), bits_of(expected[r])) << "row " << r;

      std::vector<std::uint64_t> allowed(sliced.row_words());
      const bool all = draw.below(2) == 0;
      for (std::size_t r = 0; r < count; ++r) {
        if (all || draw.below(3) != 0) allowed[r / 64] |= std::uint64_t{1} << (r % 64);
      }
      const std::size_t any = 1 + draw.below(4) * draw.below(count + 2);
      std::vector<ScoredRow> top(top_sizes[call] != 0 ? top_sizes[call] : any);
      const auto want = plain_top(expected, allowed, top.size(), best);
      ASSERT_EQ(sliced.top(pointers, allowed, family_order(count), top, scratch), want.size());
      for (std::size_t i = 0; i < want.size(); ++i) {
        ASSERT_EQ(top[i].row, want[i].row) << "place " << i;
        ASSERT_EQ(bits_of(top[i].score), bits_of(want[i].score)) << "place " << i;
      }
      const auto& counts = scratch.counts();
      ASSERT_EQ(counts.constant + counts.sliced, forest.tree_count());
      seen.constant += counts.constant;
      seen.sliced += counts.sliced;
      seen.questions += counts.questions;
      seen.dropped += count - counts.exact;
      seen.dropped_early += count - counts.finished;
      seen.by_ranks += counts.by_ranks;
      if (counts.finished < count) seen.by_ranks_of_few += counts.by_ranks;
      seen.fewest_questions = std::min(seen.fewest_questions, counts.questions);
    }
  }
}

TEST(SlicedForest, EqualsThePlainWalkBitForBit) {
  Seen seen;
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    constexpr std::array most_leaves = {1u, 2u, 3u, 31u, 32u, 33u, 64u, 65u, 128u, 400u};
    toy::RandomForest draw({.features = 1 + static_cast<std::uint32_t>(seed % 9),
                            .trees = seed % 37,
                            .most_leaves = most_leaves[seed % most_leaves.size()],
                            .average = seed % 3 == 0},
                           seed);
    const Forest forest = draw.forest();
    constexpr std::array row_counts = {1u, 63u, 64u, 65u, 255u, 256u, 257u, 700u, 1500u};
    DrawnRows rows(draw, forest, row_counts[seed % row_counts.size()]);
    compare(forest, rows, draw, seen);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(seen.constant, 0u);
  EXPECT_GT(seen.sliced, seen.constant);
  EXPECT_GT(seen.questions, 1000u);
  EXPECT_GT(seen.dropped, 1000u);
  EXPECT_GT(seen.dropped_early, 1000u);
}

/// Trees that fit a word of leaves and columns that fit a lookup: what of the best few rows is summed exactly
/// finds its leaves from the ranks of its values, where an instruction set can do that.
TEST(SlicedForest, FindsTheBestFewOfTreesInBytes) {
  Seen seen;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    toy::RandomForest draw({.features = 2 + static_cast<std::uint32_t>(seed % 5),
                            .trees = 20 + seed % 21,
                            .most_leaves = 31 + static_cast<std::uint32_t>(seed % 2),
                            .categorical = 0.05,
                            .average = seed % 3 == 0},
                           seed);
    const Forest forest = draw.forest();
    constexpr std::array row_counts = {2u, 65u, 300u, 1100u, 1500u};
    DrawnRows rows(draw, forest, row_counts[seed % row_counts.size()]);
    rows.part_all_rows(0);
    rows.part_all_rows(1);
    compare(forest, rows, draw, seen, {1, 2, 3});
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(seen.dropped_early, 1000u);
  if (best_instruction_set() == InstructionSet::avx512_dl) {
    EXPECT_GT(seen.by_ranks, 50u);
    EXPECT_GT(seen.by_ranks_of_few, 20u);
  }
}

/// More questions of one feature than a byte counts, and more of all than two bytes.
TEST(SlicedForest, ManyThresholdsOfOneFeature) {
  constexpr std::uint32_t kMissingNone = 0b001;
  struct Case {
    std::uint32_t trees, rows;
    std::size_t thresholds, questions;  ///< more than these
  };
  // The few trees have two columns, of nodes with either default way: one has more than a word of questions.
  for (const auto& [trees, row_count, thresholds, questions] :
       {Case{12, 700, 255, 2 * 64}, Case{4000, 130, 65'535, 255}}) {
    SCOPED_TRACE(fmt::format("{} trees", trees));
    Seen seen;
    toy::RandomForest draw({.features = 1,
                            .trees = trees,
                            .least_leaves = 30,
                            .most_leaves = 32,
                            .categorical = 0,
                            .missing_kinds = kMissingNone},
                           trees);
    const Forest forest = draw.forest();
    ASSERT_GT(std::set(forest.threshold.begin(), forest.threshold.end()).size(), thresholds);
    DrawnRows rows(draw, forest, row_count);
    rows.part_all_rows(0);
    compare(forest, rows, draw, seen);
    if (HasFatalFailure()) return;
    EXPECT_GT(seen.sliced, seen.constant);
    EXPECT_GT(seen.fewest_questions, questions);
  }
}

/// Trees of a word of leaves each: leaf i is that of value i of feature 1. Feature 0 is one value of a call,
/// and leads past leaf `dead` of every second tree.
Forest ladders(toy::RandomForest& draw, std::uint32_t leaves, std::uint32_t dead, std::size_t trees) {
  Forest forest;
  forest.feature_count = 2;
  for (std::size_t t = 0; t < trees; ++t) {
    for (std::uint32_t i = 0; i + 1 < leaves; ++i) {
      const bool passes = t % 2 == 1 && i == dead;
      forest.feature.push_back(passes ? 0 : 1);
      forest.threshold.push_back(passes ? -1 : i + 0.5);
      forest.left.push_back(~static_cast<std::int32_t>(i));
      forest.right.push_back(i + 2 < leaves ? static_cast<std::int32_t>(i + 1)
                                            : ~static_cast<std::int32_t>(i + 1));
      forest.decision.push_back(Decision::default_left | 2 << 2);
    }
    for (std::uint32_t i = 0; i < leaves; ++i)
      forest.leaf_value.push_back(static_cast<double>(draw.below(1000)) * 1e-3);
    forest.tree_nodes.push_back(static_cast<std::uint32_t>(forest.feature.size()));
    forest.tree_leaves.push_back(static_cast<std::uint32_t>(forest.leaf_value.size()));
  }
  check(forest);
  return forest;
}

/// Around the number of leaves that are worked out at once, with an odd number of them alive.
TEST(SlicedForest, FindsTheBestAmongAWordOfLeaves) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    toy::RandomForest draw({}, seed);
    const auto leaves = static_cast<std::uint32_t>(31 + seed % 3);
    const Forest forest = ladders(draw, leaves, static_cast<std::uint32_t>(draw.below(16)), 2 + seed % 5);
    SlicedRows rows;
    rows.rows = leaves;
    rows.partitions.emplace_back(family_order(leaves));
    rows.features.resize(2);
    rows.features[1].partition = 0;
    std::vector<double> steps(leaves), matrix;
    for (std::uint32_t i = 0; i < leaves; ++i) {
      steps[i] = i;
      matrix.insert(matrix.end(), {0.0, steps[i]});
    }
    std::vector<double> expected(leaves);
    forest.predict(matrix.data(), 2, 1, expected);
    const double one = 0;
    const std::vector<const double*> pointers = {&one, steps.data()};
    for (const SlicedKernels* kernels : kernels_here()) {
      SCOPED_TRACE(kernels->name);
      const SlicedForest sliced(forest, rows, Best::highest, *kernels);
      SlicedForest::Scratch scratch(sliced);
      std::vector<std::uint64_t> allowed(sliced.row_words());
      for (std::size_t r = 0; r < leaves; ++r) allowed[r / 64] |= std::uint64_t{1} << (r % 64);
      for (int call = 0; call < 2; ++call) {
        std::vector<ScoredRow> top(1);
        ASSERT_EQ(sliced.top(pointers, allowed, family_order(leaves), top, scratch), 1u);
        EXPECT_EQ(top[0].row, plain_top(expected, allowed, 1, Best::highest)[0].row);
      }
    }
    if (HasFailure()) return;
  }
}

Forest stumps(std::span<const double> left_values, std::span<const double> right_values) {
  Forest forest;
  forest.feature_count = 1;
  for (std::size_t t = 0; t < left_values.size(); ++t) {
    forest.threshold.push_back(static_cast<double>(t));
    forest.feature.push_back(0);
    forest.left.push_back(~0);
    forest.right.push_back(~1);
    forest.decision.push_back(Decision::default_left | 2 << 2);
    forest.leaf_value.push_back(left_values[t]);
    forest.leaf_value.push_back(right_values[t]);
    forest.tree_nodes.push_back(static_cast<std::uint32_t>(t + 1));
    forest.tree_leaves.push_back(static_cast<std::uint32_t>(2 * t + 2));
  }
  check(forest);
  return forest;
}

std::vector<ScoredRow> top_of(const Forest& forest, std::span<const double> values, std::size_t count,
                              SlicedForest::Counts* counts = nullptr) {
  SlicedRows rows;
  rows.rows = values.size();
  rows.partitions.emplace_back(family_order(values.size()));
  rows.features.push_back({0, {}});
  const SlicedForest sliced(forest, rows);
  SlicedForest::Scratch scratch(sliced);
  const double* const pointer = values.data();
  std::vector<std::uint64_t> allowed(sliced.row_words());
  for (std::size_t r = 0; r < values.size(); ++r) allowed[r / 64] |= std::uint64_t{1} << (r % 64);
  std::vector<ScoredRow> out(count);
  out.resize(sliced.top({&pointer, 1}, allowed, family_order(values.size()), out, scratch));
  if (counts) *counts = scratch.counts();
  return out;
}

TEST(SlicedForest, DifferencesBelowTheRoundingAreFoundByExactSums) {
  // One tree with a large range sets the unit; the other parts the rows by less than any rounding sees.
  const Forest forest = stumps(std::array{1e6, 0.0}, std::array{0.0, 1e-7});
  SlicedForest::Counts counts;
  const auto top = top_of(forest, std::array{0.0, -1.0, 2.0, 0.5, 1.5}, 5, &counts);
  // Rows 0 and 1 go left in both trees, row 3 right then left, rows 2 and 4 right in both.
  ASSERT_EQ(top.size(), 5u);
  EXPECT_EQ(top[0].row, 0u);
  EXPECT_EQ(top[1].row, 1u);
  EXPECT_EQ(top[2].row, 2u);
  EXPECT_EQ(top[3].row, 4u);
  EXPECT_EQ(top[4].row, 3u);
  EXPECT_EQ(top_of(forest, std::array{0.5, 2.0, 1.5}, 1)[0].row, 1u);
}

TEST(SlicedForest, LeavesNearTheLargestDoubleAreServed) {
  const Forest forest = stumps(std::array{1e308, 3.0}, std::array{-1e308, 2.0});
  const auto top = top_of(forest, std::array{0.5, 2.0, 0.0}, 3);
  ASSERT_EQ(top.size(), 3u);
  EXPECT_EQ(top[0].row, 2u);
  EXPECT_EQ(top[1].row, 0u);  // in doubles -1e308 + 3 equals -1e308 + 2: a tie, in the order of the rows
  EXPECT_EQ(top[2].row, 1u);
}

TEST(SlicedForest, RowsOfAnotherForestAreRefused) {
  const Forest forest = stumps(std::array{1.0}, std::array{2.0});
  SlicedRows rows;
  rows.rows = 2;
  EXPECT_ANY_THROW(SlicedForest(forest, rows));
  rows.features.push_back({0, {}});
  EXPECT_ANY_THROW(SlicedForest(forest, rows));
  rows.partitions.emplace_back(std::vector<std::uint32_t>{0});
  EXPECT_ANY_THROW(SlicedForest(forest, rows));
  rows.partitions[0] = SlicedClasses({0, 1});
  rows.features[0].fixed = {1.0};
  EXPECT_ANY_THROW(SlicedForest(forest, rows));
  rows.features[0].fixed = {1.0, 2.0};
  EXPECT_EQ(SlicedForest(forest, rows).rows(), 2u);
}

}  // namespace
}  // namespace kscout
