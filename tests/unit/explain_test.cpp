#include "select/explain.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include <kscout/error.h>

#include "forest/forest.h"
#include "support/random_forest.h"
#include "support/toy_model.h"

namespace kscout {
namespace {

double sum(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

/// Sums of hundreds of leaves in another order: each addition rounds by at most half of the last place.
double rounding(const Forest& forest) {
  double all = 0;
  for (const double leaf : forest.leaf_value) all = std::max(all, std::fabs(leaf));
  return 1e-15 * all * static_cast<double>(forest.tree_count() * forest.tree_count() + 1);
}

TEST(Contributions, AddUpToTheScore) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    toy::RandomForestOptions options;
    options.average = seed % 3 == 0;
    options.min_leaves = 1;
    options.max_leaves = seed % 2 == 0 ? 255 : 6;
    toy::RandomForest draw(options, seed);
    const Forest forest = draw.forest();
    const std::size_t rows = 1 + seed * 7;
    const auto matrix = draw.rows(forest, rows);
    std::vector<std::size_t> all(rows);
    std::iota(all.begin(), all.end(), std::size_t{0});
    const Contributions of = contributions(forest, matrix, rows, all);
    double mean = 0;
    for (std::size_t row = 0; row < rows; ++row) {
      const double score =
          forest.predict(std::span(matrix).subspan(row * forest.feature_count, forest.feature_count));
      EXPECT_NEAR(of.expected + sum(of.by_feature[row]), score, rounding(forest)) << seed << " row " << row;
      mean += score / static_cast<double>(rows);
    }
    EXPECT_NEAR(of.expected, mean, rounding(forest)) << seed;
  }
}

TEST(Contributions, GoToTheFeatureThatParts) {
  Forest forest;  // feature 1 parts the rows at 10; feature 0 is asked, but sends all of them one way
  forest.feature_count = 3;
  forest.tree_nodes = {0, 2};
  forest.tree_leaves = {0, 3};
  forest.threshold = {100, 10};
  forest.feature = {0, 1};
  forest.left = {1, -1};
  forest.right = {-3, -2};
  forest.decision = {0, 0};
  forest.leaf_value = {1, 5, 100};
  check(forest);
  const std::vector<double> matrix = {3, 2, 7, 3, 20, 7, 3, 30, 8, 3, 40, 9};
  const Contributions of = contributions(forest, matrix, 4, std::vector<std::size_t>{0, 3});
  EXPECT_EQ(of.expected, 4);
  EXPECT_EQ(of.by_feature[0], (std::vector<double>{0, -3, 0}));
  EXPECT_EQ(of.by_feature[1], (std::vector<double>{0, 1, 0}));
  EXPECT_THROW(contributions(forest, matrix, 3, {}), Error);
}

TEST(ContributionDifferences, LeaveOutRoundingErrors) {
  const ExplainedConfig first{0, 1, 0, {}, {0.1 + 0.2, 1, 1e-9}}, second{1, 2, 0, {}, {0.3, 0, 0}};
  const auto differences = contribution_differences(first, second);
  ASSERT_EQ(differences.size(), 2u);
  EXPECT_EQ(differences[0].feature, 1u);
  EXPECT_EQ(differences[1].feature, 2u);
}

TEST(Explain, RanksAsTheModelScores) {
  const Model model = toy::model();
  const GemmProblem p = make_gemm(96, 128, 256);
  for (const ModelTarget& target : model.data().targets) {
    const Explanation why = explain(model, p, target.target, 3, {11, 0});
    std::vector<double> scores(12);
    model.score(p, target.target, scores);
    EXPECT_EQ(why.candidates, 12u);
    EXPECT_NEAR(why.expected, sum(scores) / 12, 1e-12);
    EXPECT_EQ(why.configs[0].score, *std::ranges::max_element(scores));
    for (const ExplainedConfig& config : why.configs) {
      EXPECT_EQ(config.score, scores[config.config]);
      EXPECT_NEAR(why.expected + sum(config.contribution), config.score, 1e-12);
      std::size_t better = 0;
      for (std::size_t i = 0; i < scores.size(); ++i) {
        better += scores[i] > config.score || (scores[i] == config.score && i < config.config);
      }
      EXPECT_EQ(config.rank, better + 1);
      EXPECT_EQ(config.contribution[model.data().schema->index("n")], 0)
          << "of the problem alone: favours none";
    }
    for (const std::size_t asked : {0u, 11u}) {
      EXPECT_NE(std::ranges::find(why.configs, asked, &ExplainedConfig::config), why.configs.end()) << asked;
    }
    const auto moves = contribution_differences(why.configs[0], why.configs[2]);
    double all = 0;
    for (std::size_t i = 0; i < moves.size(); ++i) {
      all += moves[i].difference;
      EXPECT_GE(std::fabs(moves[i > 0 ? i - 1 : 0].difference), std::fabs(moves[i].difference));
    }
    EXPECT_NEAR(all, why.configs[0].score - why.configs[2].score, 1e-12);
  }
  EXPECT_THROW(explain(model, make_gemm(8, 8, 8, DType::fp32, Layout::ccr), Target::relative, 2), Error);
}

TEST(Explain, LowLatencyIsAHighScore) {
  ModelData data = toy::model().data();
  data.targets[1].target = Target::latency;
  const Model model(std::move(data));
  const Explanation why = explain(model, make_gemm(96, 128, 256), Target::latency, 12);
  for (const ExplainedConfig& config : why.configs) {
    EXPECT_NEAR(why.expected + sum(config.contribution), config.score, 1e-12);
    EXPECT_GE(why.configs[0].score, config.score);
  }
}

TEST(Explain, RulesThatKeepConfigsOut) {
  const Family family = toy::family();
  const GemmProblem narrow = make_gemm(64, 4, 64), wide = make_gemm(64, 40, 64);
  EXPECT_TRUE(exclusions(family, wide).empty());
  const auto excluded = exclusions(family, narrow);
  ASSERT_EQ(excluded.size(), 1u);
  EXPECT_EQ(excluded[0].rule.name, "wide-enough");
  EXPECT_EQ(excluded[0].configs, 4u);

  ASSERT_EQ(rules_against(family, narrow, family.configs[2]).size(), 1u) << "32 columns for a problem of 4";
  EXPECT_TRUE(rules_against(family, narrow, family.configs[1]).empty());
  EXPECT_EQ(explain(toy::model(), narrow, Target::relative, 100, {2}).configs.size(), 8u);
  KernelConfig outside = family.configs[0];
  outside.set("mr", 7);
  EXPECT_FALSE(rules_against(family, wide, outside).empty()) << "no rule set has a tile of 7 rows";
}

}  // namespace
}  // namespace kscout
