// Checks random forests: their contents, and that every way to store or evaluate one agrees.
#include <bit>
#include <set>

#include <gtest/gtest.h>

#include "forest/forest.h"
#include "forest/ksf.h"
#include "support/random_forest.h"

namespace kscout {
namespace {

TEST(RandomForest, ShowsEveryKindOfNodeAndTree) {
  toy::RandomForest draw({.trees = 60, .max_leaves = 255}, 1);
  const Forest forest = draw.forest();
  check(forest);
  const std::set<std::uint8_t> decisions(forest.decision.begin(), forest.decision.end());
  EXPECT_EQ(decisions.size(), 12u);  // three ways of missing, two default ways, numerical or categorical
  std::size_t words = 0, max_leaves = 0, min_leaves = 255;
  for (std::size_t s = 0; s < forest.set_count(); ++s)
    words = std::max<std::size_t>(words, forest.set_words[s + 1] - forest.set_words[s]);
  for (std::size_t t = 0; t < forest.tree_count(); ++t) {
    const std::size_t leaves = forest.tree_leaves[t + 1] - forest.tree_leaves[t];
    max_leaves = std::max(max_leaves, leaves);
    min_leaves = std::min(min_leaves, leaves);
  }
  EXPECT_EQ(words, 7u);
  EXPECT_GT(max_leaves, 240u);
  EXPECT_LT(min_leaves, 10u);
  EXPECT_EQ(toy::RandomForest({.trees = 60, .max_leaves = 255}, 1).forest(), forest);
}

TEST(RandomForest, EveryWayToKeepOrAskOneAgrees) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    toy::RandomForest draw({.features = 1 + static_cast<std::uint32_t>(seed % 9),
                            .trees = seed % 23,
                            .max_leaves = 1 + static_cast<std::uint32_t>(seed * 5),
                            .average = seed % 2 == 0},
                           seed);
    const Forest forest = draw.forest();
    check(forest);
    const Forest kept = parse_forest(forest_bytes(forest));
    ASSERT_EQ(kept, forest);
    constexpr std::size_t kRows = 64;
    const auto rows = draw.rows(forest, kRows);
    const std::size_t features = forest.feature_count;
    std::vector<double> columns(rows.size()), by_row(kRows), by_column(kRows);
    for (std::size_t r = 0; r < kRows; ++r) {
      for (std::size_t f = 0; f < features; ++f) columns[f * kRows + r] = rows[r * features + f];
    }
    kept.predict(rows.data(), features, 1, by_row);
    kept.predict(columns.data(), 1, kRows, by_column);
    for (std::size_t r = 0; r < kRows; ++r) {
      const double alone = forest.predict(std::span(rows).subspan(r * features, features));
      ASSERT_EQ(std::bit_cast<std::uint64_t>(by_row[r]), std::bit_cast<std::uint64_t>(alone));
      ASSERT_EQ(std::bit_cast<std::uint64_t>(by_column[r]), std::bit_cast<std::uint64_t>(alone));
    }
  }
}

}  // namespace
}  // namespace kscout
