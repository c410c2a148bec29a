// A FactoredForest gives what the plain way gives (features of every config, a walk of every tree, a stable
// sort): same configs, same bits, over real families and schemas; and it allocates nothing.
#include <algorithm>
#include <bit>
#include <numeric>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <kscout/family.h>

#include "forest/factored.h"
#include "support/heap.h"
#include "support/random_forest.h"

namespace kscout {
namespace {

struct FamilyCase {
  const char* provider;
  const char* rules;
  const char* device;
  DType dtype;
  Layout layout;
  const char* schema;
  std::size_t configs;  ///< every so manieth of the family, so that no more are left
};

constexpr FamilyCase kCases[] = {
    {"native", "default", "epyc-7763", DType::fp32, Layout::rcr, "gemm", 2000},
    {"native", "full", "epyc-7763", DType::fp32, Layout::rrr, "gemm", 2000},
    {"native", "full", "xeon-8480", DType::fp32, Layout::crr, "gemm", 700},
    {"ck_tile", "default", "gfx942", DType::fp16, Layout::rcr, "gemm", 2000},
    {"ck_tile", "full", "gfx950", DType::fp16, Layout::rcr, "gemm", 1500},
    {"ck_tile", "full", "gfx942", DType::fp8, Layout::rcr, "ck_gemm_72", 1100},
};

Family family_of(const FamilyCase& c) {
  Family whole = enumerate({.provider = c.provider,
                            .signature = signature_of(make_gemm(1, 1, 1, c.dtype, c.layout)),
                            .device = device_preset(c.device),
                            .rules = c.rules,
                            .filter = ""});
  const std::size_t step = (whole.configs.size() + c.configs - 1) / c.configs;
  Family some = whole;
  some.configs = ConfigTable(whole.configs.space());
  some.traits.clear();
  for (std::size_t i = 0; i < whole.configs.size(); i += step) {
    some.configs.push_back(whole.configs[i]);
    some.traits.push_back(whole.traits[i]);
  }
  return some;
}

GemmProblem any_problem(const FamilyCase& c, toy::RandomForest& draw) {
  const auto size = [&] {
    static constexpr std::array<std::int64_t, 10> sizes = {1, 3, 16, 48, 63, 64, 129, 1021, 4096, 20480};
    return sizes[draw.below(sizes.size())];
  };
  GemmProblem problem = make_gemm(size(), size(), size(), c.dtype, c.layout);
  problem.batch = 1 + static_cast<std::int64_t>(draw.below(3));
  return problem;
}

/// Features of all configs for some problems: what a model meets.
std::vector<double> some_rows(const FamilyCase& c, const Schema& schema, const Family& family,
                              toy::RandomForest& draw) {
  std::vector<double> rows, matrix(family.configs.size() * schema.size());
  for (int i = 0; i < 8; ++i) {
    schema.evaluate(any_problem(c, draw), family.device, family.configs, family.traits, matrix);
    for (int j = 0; j < 50; ++j) {
      const auto at =
          matrix.begin() + static_cast<std::ptrdiff_t>(draw.below(family.configs.size()) * schema.size());
      rows.insert(rows.end(), at, at + static_cast<std::ptrdiff_t>(schema.size()));
    }
  }
  return rows;
}

/// A random forest that splits where real values are.
Forest forest_of(const Schema& schema, std::span<const double> rows, std::uint32_t leaves,
                 toy::RandomForest& draw, std::uint64_t seed) {
  Forest forest = toy::RandomForest({.features = static_cast<std::uint32_t>(schema.size()),
                                     .trees = 40,
                                     .least_leaves = leaves / 2,
                                     .most_leaves = leaves,
                                     .categorical = 0.05},
                                    seed)
                      .forest();
  for (std::size_t node = 0; node < forest.threshold.size(); ++node) {
    if (forest.decision[node] & Decision::categorical) continue;
    const double value = rows[draw.below(rows.size() / schema.size()) * schema.size() + forest.feature[node]];
    if (value == value) forest.threshold[node] = value;
  }
  check(forest);
  return forest;
}

std::vector<ScoredConfig> plain_top(std::span<const double> scores, std::span<const std::uint8_t> allowed,
                                    std::size_t count, Best best) {
  std::vector<ScoredConfig> all;
  for (std::uint32_t i = 0; i < scores.size(); ++i) {
    if (allowed[i] != 0) all.push_back({i, scores[i]});
  }
  std::ranges::stable_sort(all, [&](const ScoredConfig& a, const ScoredConfig& b) {
    return best == Best::highest ? a.score > b.score : a.score < b.score;
  });
  all.resize(std::min(count, all.size()));
  return all;
}

void expect_equal(std::span<const ScoredConfig> got, std::span<const ScoredConfig> want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    ASSERT_EQ(got[i].config, want[i].config) << "place " << i;
    ASSERT_EQ(std::bit_cast<std::uint64_t>(got[i].score), std::bit_cast<std::uint64_t>(want[i].score));
  }
}

class FactoredForests : public testing::TestWithParam<FamilyCase> {};

TEST_P(FactoredForests, EqualThePlainWay) {
  const FamilyCase& c = GetParam();
  const Schema& schema = Schema::find(c.schema);
  const Family family = family_of(c);
  const std::size_t configs = family.configs.size();
  std::size_t sliced = 0, dropped = 0;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    toy::RandomForest draw({}, seed);
    constexpr std::array<std::uint32_t, 6> leaves = {31, 2, 127, 8, 255, 64};
    const Forest forest = forest_of(schema, some_rows(c, schema, family, draw), leaves[seed], draw, seed);
    const Best best = seed % 2 == 0 ? Best::highest : Best::lowest;
    const FactoredForest fast(forest, schema, family.device, family.configs, family.traits, best);
    FactoredForest::Scratch scratch(fast);
    ASSERT_EQ(fast.size(), configs);
    for (int call = 0; call < 4; ++call) {
      const GemmProblem problem = any_problem(c, draw);
      SCOPED_TRACE(fmt::format("seed {} {}", seed, print(problem)));
      std::vector<double> matrix(configs * schema.size()), expected(configs), scores(configs);
      schema.evaluate(problem, family.device, family.configs, family.traits, matrix);
      forest.predict(matrix.data(), schema.size(), 1, expected);
      std::vector<std::uint8_t> allowed(configs, 1);
      if (call % 2 == 1) {
        for (std::uint8_t& a : allowed) a = draw.below(3) == 0;
      }
      std::vector<ScoredConfig> top(call == 3 ? configs : 1 + draw.below(7));

      const HeapWatch watch;
      const auto found = fast.top(problem, allowed, top, scratch);
      const bool scored = fast.scores(problem, scores, scratch);
      ASSERT_EQ(watch.allocations(), 0u);
      ASSERT_TRUE(found && scored);
      expect_equal(std::span(top).first(*found), plain_top(expected, allowed, top.size(), best));
      for (std::size_t i = 0; i < configs; ++i) {
        ASSERT_EQ(std::bit_cast<std::uint64_t>(scores[i]), std::bit_cast<std::uint64_t>(expected[i]));
      }
      ASSERT_TRUE(fast.top(problem, allowed, std::span(top).first(1), scratch));
      const SlicedForest::Counts& counts = scratch.counts();
      ASSERT_EQ(counts.constant + counts.sliced, forest.tree_count());
      sliced += counts.sliced;
      dropped += fast.distinct() - counts.exact;
    }
  }
  EXPECT_GT(sliced, 100u);
  EXPECT_GT(dropped, 100u);
}

INSTANTIATE_TEST_SUITE_P(Families, FactoredForests, testing::ValuesIn(kCases), [](const auto& of) {
  std::string name =
      fmt::format("{}_{}_{}_{}", of.param.provider, of.param.rules, of.param.device, of.param.schema);
  std::ranges::replace(name, '-', '_');
  return name;
});

TEST(FactoredForest, WhatTheSchemaCannotDescribeIsSaid) {
  const FamilyCase c = {"ck_tile", "default", "gfx942", DType::fp16, Layout::rcr, "ck_gemm_55", 100};
  const Schema& schema = Schema::find(c.schema);
  const Family family = family_of(c);
  toy::RandomForest draw({}, 1);
  const Forest forest = forest_of(schema, some_rows(c, schema, family, draw), 8, draw, 1);
  const FactoredForest fast(forest, schema, family.device, family.configs, family.traits);
  FactoredForest::Scratch scratch(fast);
  const std::vector<std::uint8_t> allowed(fast.size(), 1);
  std::array<ScoredConfig, 1> best;
  EXPECT_TRUE(fast.top(make_gemm(64, 64, 64, DType::fp16), allowed, best, scratch).has_value());
  const GemmProblem stranger = make_gemm(64, 64, 64, DType::fp64);
  std::vector<double> row(schema.size() * family.configs.size());
  EXPECT_ANY_THROW(schema.evaluate(stranger, family.device, family.configs, family.traits, row));
  EXPECT_FALSE(fast.top(stranger, allowed, best, scratch).has_value());
}

TEST(FactoredForest, ThreadsShareItWithScratchesOfTheirOwn) {
  const FamilyCase& c = kCases[0];
  const Schema& schema = Schema::find(c.schema);
  const Family family = family_of(c);
  toy::RandomForest draw({}, 3);
  const Forest forest = forest_of(schema, some_rows(c, schema, family, draw), 31, draw, 3);
  const FactoredForest fast(forest, schema, family.device, family.configs, family.traits);
  std::vector<GemmProblem> problems;
  for (int i = 0; i < 16; ++i) problems.push_back(any_problem(c, draw));
  const std::vector<std::uint8_t> allowed(fast.size(), 1);
  const auto answers = [&] {
    FactoredForest::Scratch scratch(fast);
    std::vector<ScoredConfig> best(problems.size());
    for (std::size_t i = 0; i < problems.size(); ++i) {
      (void)fast.top(problems[i], allowed, std::span(best).subspan(i, 1), scratch);
    }
    return best;
  };
  const auto alone = answers();
  std::vector<std::vector<ScoredConfig>> together(4);
  std::vector<std::thread> threads;
  for (auto& to : together) threads.emplace_back([&] { to = answers(); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& best : together) expect_equal(best, alone);
}

}  // namespace
}  // namespace kscout
