#include "search/search.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include <kscout/provider.h>

#include "search/measured_search.h"
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
                                       {.strategy = SearchStrategy::all, .evaluations = 3, .top = 50});
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
  for (const auto strategy : {SearchStrategy::random, SearchStrategy::de}) {
    SCOPED_TRACE(word(strategy));
    std::vector<std::uint32_t> first, again, second, other;
    const SearchRequest request{.strategy = strategy, .evaluations = 100};
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
  for (const auto strategy : {SearchStrategy::random, SearchStrategy::de}) {
    for (const std::size_t budget : {0u, 1u, 3u, 5u, 19u, 64u, 205u}) {
      SCOPED_TRACE(word(strategy));
      std::vector<std::uint32_t> asked;
      const auto found = Searcher().search(space, counted(space, asked),
                                           {.strategy = strategy, .evaluations = budget, .top = 4});
      EXPECT_EQ(found.evaluations, asked.size());
      EXPECT_LE(asked.size(), budget);
      EXPECT_LE(found.best.size(), std::min<std::size_t>(4, budget));
      EXPECT_EQ(found.best.empty(), budget == 0);
      EXPECT_TRUE(std::ranges::is_sorted(found.best, std::ranges::greater{}, &FoundConfig::score));
    }
  }
}

TEST(Searcher, EvolutionIsNoWorseThanNineTenthsOfRandomDraws) {
  const SearchSpace space(with_holes());
  std::vector<std::uint32_t> asked;
  const auto evolved =
      Searcher().search(space, counted(space, asked), {.strategy = SearchStrategy::de, .evaluations = 100});
  const auto drawn = Searcher().search(space, counted(space, asked),
                                       {.strategy = SearchStrategy::random, .evaluations = 100});
  EXPECT_GE(evolved.best.front().score, 0.9 * drawn.best.front().score);
}

TEST(Searcher, WhatCannotRunIsNotFound) {
  const SearchSpace space(with_holes());
  const Objective objective = [&](std::span<const std::uint32_t> configs, std::span<double> scores) {
    for (std::size_t i = 0; i < configs.size(); ++i) {
      scores[i] = configs[i] % 3 == 0 ? NAN : configs[i] % 3 == 1 ? -HUGE_VAL : rugged(space, configs[i]);
    }
  };
  for (const auto strategy : {SearchStrategy::random, SearchStrategy::de}) {
    const auto found =
        Searcher().search(space, objective, {.strategy = strategy, .evaluations = 90, .top = 90});
    EXPECT_FALSE(found.best.empty());
    for (const FoundConfig& one : found.best) EXPECT_EQ(one.config % 3, 2u);
  }
  const Objective never = [](std::span<const std::uint32_t>, std::span<double>) {};  // leaves -infinity
  EXPECT_TRUE(Searcher().search(space, never, {}).best.empty());
}

TEST(Searcher, RefusesUnknownStrategies) {
  expect_error(Errc::invalid_argument, "search strategy", [] { parse<SearchStrategy>("guided"); });
}

TEST(ModelObjective, IsTheModelOverApplicableConfigs) {
  const Model model = toy::model();
  const GemmProblem narrow = make_gemm(64, 4, 32), wide = make_gemm(64, 64, 32);
  const Family family = toy::family();
  EXPECT_EQ(applicable_table(family, wide).size(), 12u);
  const SearchSpace space(applicable_table(family, narrow));
  EXPECT_EQ(space.size(), 8u);  // a rule keeps tiles of 32 columns out
  std::vector<double> scores(2);
  model_objective(model, narrow, space)(std::vector<std::uint32_t>{6, 1}, scores);
  ConfigTable asked(space.configs().space());
  asked.push_back(space.configs()[6]);
  asked.push_back(space.configs()[1]);
  EXPECT_EQ(scores, model.score_configs(narrow, asked));
}

/// Times the rugged ridge: the top takes 10 us. Every `broken`-th config fails.
class RidgeTimer final : public ConfigTimer {
 public:
  explicit RidgeTimer(const SearchSpace& space, std::uint32_t broken = 0) : space_(space), broken_(broken) {}

  double exact_us(std::uint32_t config) const {
    if (broken_ != 0 && config % broken_ == 0) return NAN;
    return 10 * std::exp(0.2 * (best_score(space_) - rugged(space_, config)));
  }
  double time_us(std::uint32_t config) override {
    timed.push_back(config);
    return exact_us(config) * (1 + error * (config % 7 == 0 ? -1 : 1));
  }
  std::vector<Retimed> retime(std::span<const std::uint32_t> configs) override {
    retimed.assign(configs.begin(), configs.end());
    std::vector<Retimed> out;
    for (const std::uint32_t config : configs) {
      const double exact = config == breaks_later ? NAN : exact_us(config);
      out.push_back({exact, exact < too_slow_us});
    }
    return out;
  }

  std::vector<std::uint32_t> timed, retimed;
  double error = 0;  ///< of coarse times; one config in seven looks faster than it is
  std::uint32_t breaks_later = UINT32_MAX;
  double too_slow_us = HUGE_VAL;  ///< given up before the rounds

 private:
  const SearchSpace& space_;
  std::uint32_t broken_;
};

TEST(MeasuredSearch, FindsARuggedTopByTimingFivePercent) {
  const SearchSpace space(with_holes());
  RidgeTimer timer(space);
  const auto found = search_by_measuring(space, timer, {.evaluations = space.size() / 20});
  EXPECT_LE(found.best.front().time_us, 1.05 * 10);
  EXPECT_EQ(found.timed, space.size() / 20);
  EXPECT_EQ(timer.timed.size(), found.timed);
  EXPECT_EQ(std::set(timer.timed.begin(), timer.timed.end()).size(), found.timed);  // each once
  EXPECT_EQ(found.failed, 0u);
}

TEST(MeasuredSearch, MisleadingExpectationsCostAPartOfTheEvaluationsOnly) {
  const SearchSpace space(with_holes());
  RidgeTimer timer(space);
  SearchStart start;
  for (std::uint32_t c = 0; c < space.size(); ++c) start.expected_us.push_back(100 / timer.exact_us(c));
  start.expected_us[5] = NAN;
  const auto found = search_by_measuring(space, timer, {.start = start, .evaluations = space.size() / 10});
  EXPECT_LE(found.best.front().time_us, 1.1 * 10);
}

TEST(MeasuredSearch, TimesTheFirstThenTheExpectedOrder) {
  const SearchSpace space(with_holes());
  RidgeTimer timer(space);
  SearchStart start{.expected_us = {}, .first = {9, 4}, .in_order = 3, .evaluations = 0};
  start.expected_us.assign(space.size(), 50);
  start.expected_us[30] = 1, start.expected_us[4] = 2, start.expected_us[20] = 3, start.expected_us[7] = 4;
  search_by_measuring(space, timer, {.start = start, .evaluations = 5});
  EXPECT_EQ(timer.timed, (std::vector<std::uint32_t>{9, 4, 30, 20, 7}));
}

TEST(MeasuredSearch, InterleavedTimesDecideAmongTheFastest) {
  const SearchSpace space(with_holes());
  RidgeTimer timer(space);
  timer.error = 0.1;
  timer.too_slow_us = 12;
  const auto found = search_by_measuring(space, timer, {.evaluations = 60, .top = 60});
  ASSERT_EQ(found.best.size(), 60u);
  ASSERT_EQ(timer.retimed.size(), 16u);
  for (std::size_t i = 0; i < found.best.size(); ++i) {
    const TimedConfig& one = found.best[i];
    const bool again = std::ranges::find(timer.retimed, one.config) != timer.retimed.end();
    EXPECT_EQ(one.in_rounds, again && timer.exact_us(one.config) < 12);
    EXPECT_EQ(timer.timed[one.evaluation - 1], one.config);
    if (again) {
      EXPECT_EQ(one.time_us, timer.exact_us(one.config));
    }
    if (i == 0) continue;
    const TimedConfig& before = found.best[i - 1];  // rounds count for more than coarse times
    EXPECT_TRUE(before.in_rounds != one.in_rounds ? before.in_rounds : before.time_us <= one.time_us);
  }
  EXPECT_TRUE(found.best.front().in_rounds);
}

TEST(MeasuredSearch, WhatCannotBeUsedCountsAndIsNotFound) {
  const SearchSpace space(with_holes());
  RidgeTimer timer(space, 3);
  auto found = search_by_measuring(space, timer, {.evaluations = 60, .top = 60});
  EXPECT_EQ(found.timed, 60u);
  EXPECT_GT(found.failed, 0u);
  EXPECT_EQ(found.best.size() + found.failed, 60u);
  for (const TimedConfig& one : found.best) EXPECT_NE(one.config % 3, 0u);

  // Also one that fails only when it is timed again.
  RidgeTimer later(space, 3);
  later.breaks_later = found.best.front().config;
  found = search_by_measuring(space, later, {.evaluations = 60, .top = 60});
  EXPECT_EQ(found.best.size() + found.failed, 60u);
  for (const TimedConfig& one : found.best) EXPECT_NE(one.config, later.breaks_later);

  RidgeTimer never(space, 1);
  found = search_by_measuring(space, never, {.evaluations = 9});
  EXPECT_TRUE(found.best.empty());
  EXPECT_EQ(found.failed, 9u);
  EXPECT_TRUE(never.retimed.empty());
}

TEST(MeasuredSearch, StopsWhenToldButTimesOne) {
  const SearchSpace space(with_holes());
  RidgeTimer timer(space);
  EXPECT_EQ(search_by_measuring(space, timer, {.evaluations = 60, .stop = [] { return true; }}).timed, 1u);
  const auto until = [&] { return timer.timed.size() >= 12; };
  EXPECT_EQ(search_by_measuring(space, timer, {.evaluations = 60, .stop = until}).timed, 11u);
  const SearchSpace few(product([](int a, int b, int c, int d, int e) {
    return std::max({a, b, c, d, e}) < 2;
  }));
  RidgeTimer timer_of_few(few);
  EXPECT_EQ(search_by_measuring(few, timer_of_few, {.evaluations = 9999}).timed,
            few.size());  // all there are
  EXPECT_EQ(search_by_measuring(space, timer, {.evaluations = 0}).timed, 0u);
}

TEST(MeasuredSearch, RefusesAStartOfAnotherSpace) {
  const SearchSpace space(with_holes());
  RidgeTimer timer(space);
  expect_error(Errc::invalid_argument, "3 expected times", [&] {
    search_by_measuring(space, timer, {.start = {.expected_us = {1, 2, 3}}});
  });
  for (const auto& first : {std::vector<std::uint32_t>{1, 1}, std::vector<std::uint32_t>{99999}}) {
    expect_error(Errc::invalid_argument, "name each once",
                 [&] { search_by_measuring(space, timer, {.start = {.first = first}}); });
  }
}

TEST(SearchStart, ByCostBeginsWithTheVendorsSuggestionsInTheirOrder) {
  const GemmProblem problem = make_gemm(512, 512, 512, DType::bf16);
  const Device device = find_device("h200");
  const Family family = enumerate({.provider = "nvidia",
                                   .signature = signature_of(problem),
                                   .device = device,
                                   .rules = "default",
                                   .filter = ""});
  const ConfigTable configs = applicable_table(family, problem);
  const SearchStart start = start_by_cost(problem, configs, device);
  ASSERT_EQ(start.first.size(), 8u);
  for (std::size_t i = 0; i < start.first.size(); ++i) {
    EXPECT_EQ(configs[start.first[i]]["suggestion"], static_cast<int>(i) + 1);
    EXPECT_TRUE(std::isnan(start.expected_us[start.first[i]]));  // another algorithm for every problem
  }
  EXPECT_GT(std::ranges::count_if(start.expected_us, [](double us) { return us > 0; }), 8);
  EXPECT_EQ(start.in_order, 0u);
  EXPECT_EQ(start.evaluations, std::min<std::size_t>(configs.size(), 24));
}

TEST(SearchStart, ByModelExpectsItsTimesAndKeepsHalfForItsOrder) {
  const Model model = toy::model();
  const GemmProblem problem = make_gemm(64, 64, 32);
  const ConfigTable configs = applicable_table(toy::family(), problem);
  const SearchStart start = start_by_model(model, problem, configs);
  const std::vector<double> tflops = model.predicted_tflops(problem, model.score_configs(problem, configs));
  ASSERT_EQ(start.expected_us.size(), configs.size());
  for (std::size_t i = 0; i < configs.size(); ++i)
    EXPECT_DOUBLE_EQ(start.expected_us[i] * tflops[i] * 1e6, flop_count(problem));
  EXPECT_EQ(start.evaluations, 12u);  // all: fewer than 16
  EXPECT_EQ(start.in_order, 6u);
}

}  // namespace
}  // namespace kscout
