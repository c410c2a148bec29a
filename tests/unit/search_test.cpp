#include "search/search.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "search/model_objective.h"
#include "support/expect_error.h"
#include "support/toy_model.h"

namespace kscout {
namespace {

using test::expect_error;

/// Configs of the native GEMM space that differ in five axes; `legal` leaves holes.
template <class F>
ConfigTable product(F&& legal) {
  const ConfigSpace& space = provider("native").space(Op::gemm);
  ConfigTable table(space);
  KernelConfig config(space);
  for (std::size_t axis = 0; axis < space.axes.size(); ++axis) config[axis] = 0;
  for (int a = 0; a < 6; ++a) {
    for (int b = 0; b < 6; ++b) {
      for (int c = 0; c < 6; ++c) {
        for (int d = 0; d < 4; ++d) {
          for (int e = 0; e < 3; ++e) {
            config[2] = 1 << a, config[3] = 1 << b, config[7] = 8 << c, config[8] = 3 * d, config[12] = e;
            if (legal(a, b, c, d, e)) table.push_back(config);
          }
        }
      }
    }
  }
  return table;
}

ConfigTable with_holes() {
  return product([](int a, int b, int c, int d, int e) { return (a + b + c + d + e) % 3 != 0 && a + b < 9; });
}

/// A ridge along which two axes trade against each other, with steps: no axis alone tells where the top is.
double rugged(const SearchSpace& space, std::uint32_t config) {
  const auto p = space.point(config);
  const double ridge = std::fabs(p[0] + p[1] - 6.0), sink = std::fabs(p[2] - 3.0) * (1 + 0.2 * p[4]);
  return 10 - ridge - sink - 0.3 * std::fabs(p[3] - 2.0 + (p[2] % 2)) - 0.1 * ((p[0] * 7 + p[3] * 3) % 5);
}

Objective counted(const SearchSpace& space, std::vector<std::uint32_t>& asked) {
  return [&](std::span<const std::uint32_t> configs, std::span<double> scores) {
    for (std::size_t i = 0; i < configs.size(); ++i) {
      asked.push_back(configs[i]);
      scores[i] = rugged(space, configs[i]);
    }
  };
}

double best_score(const SearchSpace& space) {
  double best = -1e9;
  for (std::uint32_t c = 0; c < space.size(); ++c) best = std::max(best, rugged(space, c));
  return best;
}

TEST(SearchSpace, EveryConfigIsFoundAtItsPointAndHolesAreHoles) {
  const SearchSpace space(with_holes());
  ASSERT_EQ(space.axes(), 5u);  // axes on which all agree are left out
  std::size_t points = 1;
  for (std::size_t axis = 0; axis < space.axes(); ++axis) points *= space.values(axis);
  ASSERT_LT(space.size(), points);
  std::size_t found = 0;
  SearchPoint point(space.axes());
  for (std::size_t i = 0; i < points; ++i) {
    std::size_t rest = i;
    for (std::size_t axis = 0; axis < point.size(); ++axis) {
      point[axis] = static_cast<std::uint16_t>(rest % space.values(axis));
      rest /= space.values(axis);
    }
    const auto at = space.find(point);
    if (!at) continue;
    ++found;
    EXPECT_TRUE(std::ranges::equal(space.point(*at), point));
  }
  EXPECT_EQ(found, space.size());
}

TEST(SearchSpace, RefusesNothingAndRepetitions) {
  ConfigTable twice = product([](int a, int b, int, int, int) { return a == 0 && b == 0; });
  const KernelConfig first = twice[0];
  twice.push_back(first);
  expect_error(Errc::invalid_argument, "twice", [&] { SearchSpace{twice}; });
  expect_error(Errc::invalid_argument, "nothing to search",
               [] { SearchSpace{ConfigTable(provider("native").space(Op::gemm))}; });
}

TEST(Searcher, AllIsTheBruteForceAndSortsStably) {
  const SearchSpace space(with_holes());
  std::vector<std::uint32_t> asked;
  const auto found = Searcher().search(space, counted(space, asked),
                                       {.strategy = SearchStrategy::all, .budget = 3, .top = 50});
  EXPECT_EQ(found.evaluations, space.size());
  ASSERT_EQ(found.best.size(), 50u);
  EXPECT_EQ(found.best.front().score, best_score(space));
  for (std::size_t i = 1; i < found.best.size(); ++i) {
    const auto &a = found.best[i - 1], &b = found.best[i];
    EXPECT_TRUE(a.score > b.score || (a.score == b.score && a.config < b.config));
  }
}

TEST(Searcher, SameSeedRepeatsAndASecondCallGoesOn) {
  const SearchSpace space(with_holes());
  for (const auto strategy : {SearchStrategy::random, SearchStrategy::de, SearchStrategy::guided}) {
    SCOPED_TRACE(word(strategy));
    std::vector<std::uint32_t> first, again, second, other;
    const SearchRequest request{.strategy = strategy, .budget = 100};
    Searcher searcher(7), fresh(7), different(8);
    const auto a = searcher.search(space, counted(space, first), request);
    const auto b = fresh.search(space, counted(space, again), request);
    searcher.search(space, counted(space, second), request);
    different.search(space, counted(space, other), request);
    EXPECT_EQ(a.best, b.best);
    EXPECT_EQ(first, again);
    EXPECT_NE(first, second);
    EXPECT_NE(first, other);
  }
}

TEST(Searcher, CountsEveryEvaluationAndNeverExceedsTheBudget) {
  const SearchSpace space(with_holes());
  for (const auto strategy : {SearchStrategy::random, SearchStrategy::de, SearchStrategy::guided}) {
    for (const std::size_t budget : {0u, 1u, 3u, 5u, 19u, 64u, 205u}) {
      SCOPED_TRACE(word(strategy));
      std::vector<std::uint32_t> asked;
      const auto found =
          Searcher().search(space, counted(space, asked), {.strategy = strategy, .budget = budget, .top = 4});
      EXPECT_EQ(found.evaluations, asked.size());
      EXPECT_LE(asked.size(), budget);
      EXPECT_LE(found.best.size(), std::min<std::size_t>(4, budget));
      EXPECT_EQ(found.best.empty(), budget == 0);
      EXPECT_TRUE(std::ranges::is_sorted(found.best, std::ranges::greater{}, &FoundConfig::score));
      if (strategy != SearchStrategy::guided) continue;
      EXPECT_EQ(asked.size(), budget);  // exactly
      EXPECT_EQ(std::set(asked.begin(), asked.end()).size(), asked.size());
    }
  }
}

TEST(Searcher, GuidedAsksSmallSpacesOnce) {
  const SearchSpace space(product([](int a, int b, int c, int, int) { return a == b && b == c; }));
  std::vector<std::uint32_t> asked;
  const auto found = Searcher().search(space, counted(space, asked), {.budget = 500, .top = 500});
  EXPECT_EQ(found.evaluations, space.size());
  EXPECT_EQ(found.best.size(), space.size());
}

TEST(Searcher, EvolutionIsNoWorseThanNineTenthsOfRandomDraws) {
  const SearchSpace space(with_holes());
  std::vector<std::uint32_t> asked;
  const auto evolved =
      Searcher().search(space, counted(space, asked), {.strategy = SearchStrategy::de, .budget = 100});
  const auto drawn =
      Searcher().search(space, counted(space, asked), {.strategy = SearchStrategy::random, .budget = 100});
  EXPECT_GE(evolved.best.front().score, 0.9 * drawn.best.front().score);
}

TEST(Searcher, GuidedFindsARuggedTopWithFivePercentOfTheEvaluations) {
  const SearchSpace space(with_holes());
  const double best = best_score(space);
  const std::size_t budget = space.size() * 5 / 100;
  std::vector<double> misleading(space.size());
  for (std::uint32_t c = 0; c < space.size(); ++c) misleading[c] = -rugged(space, c);
  misleading[5] = NAN;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(seed);
    std::vector<std::uint32_t> asked;
    const auto alone = Searcher(seed).search(space, counted(space, asked), {.budget = budget});
    EXPECT_GE(alone.best.front().score, 0.95 * best);
    // What was thought before may be wrong: it costs a part of the budget, not the search.
    const auto misled =
        Searcher(seed).search(space, counted(space, asked), {.budget = 2 * budget, .prior = misleading});
    EXPECT_GE(misled.best.front().score, 0.95 * best);
  }
}

TEST(Searcher, WhatCannotRunIsNotFound) {
  const SearchSpace space(with_holes());
  const Objective objective = [&](std::span<const std::uint32_t> configs, std::span<double> scores) {
    for (std::size_t i = 0; i < configs.size(); ++i) {
      scores[i] = configs[i] % 3 == 0 ? NAN : configs[i] % 3 == 1 ? -HUGE_VAL : rugged(space, configs[i]);
    }
  };
  for (const auto strategy : {SearchStrategy::random, SearchStrategy::de, SearchStrategy::guided}) {
    const auto found = Searcher().search(space, objective, {.strategy = strategy, .budget = 90, .top = 90});
    EXPECT_FALSE(found.best.empty());
    for (const FoundConfig& one : found.best) EXPECT_EQ(one.config % 3, 2u);
  }
  const Objective never = [](std::span<const std::uint32_t>, std::span<double>) {};  // leaves -infinity
  EXPECT_TRUE(Searcher().search(space, never, {.budget = 40}).best.empty());
}

TEST(Searcher, RefusesAPriorOfAnotherSizeAndUnknownStrategies) {
  const SearchSpace space(with_holes());
  const std::vector<double> prior(3);
  expect_error(Errc::invalid_argument, "a prior of 3",
               [&] { Searcher().search(space, [](auto, auto) {}, {.prior = prior}); });
  expect_error(Errc::invalid_argument, "search strategy", [] { parse<SearchStrategy>("annealing"); });
}

TEST(ModelObjective, IsTheModelOverConfigsThatServe) {
  const Model model = toy::model();
  const GemmProblem narrow = make_gemm(64, 4, 32), wide = make_gemm(64, 64, 32);
  const Family family = toy::family();
  EXPECT_EQ(servable_configs(family, wide).size(), 12u);
  const SearchSpace space(servable_configs(family, narrow));
  EXPECT_EQ(space.size(), 8u);  // a rule keeps tiles of 32 columns out
  std::vector<double> scores(2);
  model_objective(model, narrow, space)(std::vector<std::uint32_t>{6, 1}, scores);
  ConfigTable asked(space.configs().space());
  asked.push_back(space.configs()[6]);
  asked.push_back(space.configs()[1]);
  EXPECT_EQ(scores, model.score_configs(narrow, asked));
  EXPECT_TRUE(analytic_prior(model, narrow, space.configs()).empty());  // its schema has no analytic time
}

}  // namespace
}  // namespace kscout
