// Checks that a FamilyForest equals the plain method (features of every config, evaluation of every tree) bit
// for bit, over real families and schemas, and that it allocates nothing.
#include "forest/family_forest.h"

#include <algorithm>
#include <bit>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <kscout/family.h>

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
                                     .min_leaves = leaves / 2,
                                     .max_leaves = leaves,
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

const Forest kNoForest;

/// Some configs of a family, in any order, some twice.
std::vector<std::uint32_t> picked_of(std::size_t configs, std::size_t count, toy::RandomForest& draw) {
  std::vector<std::uint32_t> picked(count);
  for (std::uint32_t& config : picked) config = static_cast<std::uint32_t>(draw.below(configs));
  return picked;
}

class FamilyForests : public testing::TestWithParam<FamilyCase> {};

TEST_P(FamilyForests, EqualThePlainWay) {
  const FamilyCase& c = GetParam();
  const Schema& schema = Schema::find(c.schema);
  const Family family = family_of(c);
  const std::size_t configs = family.configs.size();
  std::vector<std::uint32_t> of_problem;
  for (std::uint32_t f = 0; f < schema.size(); ++f) {
    if (schema.depends(f).problem_only()) of_problem.push_back(f);
  }
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    toy::RandomForest draw({}, seed);
    constexpr std::array<std::uint32_t, 6> leaves = {31, 2, 127, 8, 300, 64};
    const Forest forest = forest_of(schema, some_rows(c, schema, family, draw), leaves[seed], draw, seed);
    const Forest second =
        toy::RandomForest({.features = static_cast<std::uint32_t>(of_problem.size())}, seed).forest();
    const FamilyForest fast(forest, second, of_problem, schema, family);
    FamilyForest::Scratch scratch;
    ASSERT_EQ(fast.size(), configs);
    // The first call of a forest makes the scratch large enough.
    double one = 0;
    ASSERT_TRUE(fast.scores(any_problem(c, draw), std::array{0u}, std::span(&one, 1), scratch));
    (void)fast.score_of_problem(scratch);
    for (const std::size_t count : {1 + draw.below(70), std::size_t{32}, std::size_t{0}, configs}) {
      const GemmProblem problem = any_problem(c, draw);
      SCOPED_TRACE(fmt::format("seed {} {} configs {}", seed, print(problem), count));
      std::vector<double> matrix(configs * schema.size()), expected(configs), scores(count);
      schema.evaluate(problem, family.device, family.configs, family.traits, matrix);
      forest.predict(matrix.data(), schema.size(), 1, expected);
      const auto picked = picked_of(configs, count, draw);

      const HeapWatch watch;
      ASSERT_TRUE(fast.scores(problem, picked, scores, scratch));
      const double of_problem_alone = fast.score_of_problem(scratch);
      ASSERT_EQ(watch.allocations(), 0u);
      std::vector<double> row;
      for (const std::uint32_t f : of_problem) row.push_back(matrix[f]);
      ASSERT_EQ(std::bit_cast<std::uint64_t>(of_problem_alone),
                std::bit_cast<std::uint64_t>(second.predict(row)));
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(std::bit_cast<std::uint64_t>(scores[i]), std::bit_cast<std::uint64_t>(expected[picked[i]]));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, FamilyForests, testing::ValuesIn(kCases), [](const auto& of) {
  std::string name =
      fmt::format("{}_{}_{}_{}", of.param.provider, of.param.rules, of.param.device, of.param.schema);
  std::ranges::replace(name, '-', '_');
  return name;
});

TEST(FamilyForest, WhatTheSchemaCannotDescribeIsSaid) {
  const FamilyCase c = {"ck_tile", "default", "gfx942", DType::fp16, Layout::rcr, "ck_gemm_55", 100};
  const Schema& schema = Schema::find(c.schema);
  const Family family = family_of(c);
  toy::RandomForest draw({}, 1);
  const Forest forest = forest_of(schema, some_rows(c, schema, family, draw), 8, draw, 1);
  const FamilyForest fast(forest, kNoForest, {}, schema, family);
  FamilyForest::Scratch scratch;
  const std::array<std::uint32_t, 2> picked = {3, 0};
  std::array<double, 2> scores;
  EXPECT_TRUE(fast.scores(make_gemm(64, 64, 64, DType::fp16), picked, scores, scratch));
  const GemmProblem stranger = make_gemm(64, 64, 64, DType::fp64);
  std::vector<double> row(schema.size() * family.configs.size());
  EXPECT_ANY_THROW(schema.evaluate(stranger, family.device, family.configs, family.traits, row));
  EXPECT_FALSE(fast.scores(stranger, picked, scores, scratch));
}

TEST(FamilyForest, ThreadsShareItWithScratchesOfTheirOwn) {
  const FamilyCase& c = kCases[0];
  const Schema& schema = Schema::find(c.schema);
  const Family family = family_of(c);
  toy::RandomForest draw({}, 3);
  const Forest forest = forest_of(schema, some_rows(c, schema, family, draw), 31, draw, 3);
  const FamilyForest fast(forest, kNoForest, {}, schema, family);
  std::vector<GemmProblem> problems;
  for (int i = 0; i < 16; ++i) problems.push_back(any_problem(c, draw));
  const auto picked = picked_of(fast.size(), 50, draw);
  const auto answers = [&] {
    FamilyForest::Scratch scratch;
    std::vector<double> all;
    for (const GemmProblem& problem : problems) {
      std::vector<double> scores(picked.size());
      (void)fast.scores(problem, picked, scores, scratch);
      all.insert(all.end(), scores.begin(), scores.end());
    }
    return all;
  };
  const auto alone = answers();
  std::vector<std::vector<double>> together(4);
  std::vector<std::thread> threads;
  for (auto& to : together) threads.emplace_back([&] { to = answers(); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& scores : together) EXPECT_EQ(scores, alone);
}

}  // namespace
}  // namespace kscout
