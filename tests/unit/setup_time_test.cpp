// Set-up times of configs: stored with a model, stated by a choice, charged over a number of calls.
#include <algorithm>
#include <array>
#include <cmath>

#include <kscout/selector.h>

#include "support/expect_error.h"
#include "support/heap.h"
#include "support/models_folder.h"

namespace kscout {
namespace {

constexpr double kUnknown = Choice::unknown;

/// The toy's model on a GPU. Config i takes i * 100 us to set up; that of config 0 is unknown.
ModelData with_setup_times() {
  ModelData data = toy::model().data();
  for (Family& family : data.families) {
    family.device = device_preset("h200");
    family.setup_us.push_back(kUnknown);
    for (std::size_t i = 1; i < family.configs.size(); ++i)
      family.setup_us.push_back(100 * static_cast<double>(i));
  }
  return data;
}

class SetupTime : public toy::ModelsFolder {
 protected:
  void SetUp() override {
    ModelsFolder::SetUp();
    install(folder_ / "gpu", Model(with_setup_times()));
  }
  Selector charging(std::int64_t calls, const char* model = "gpu") const {
    const Device device = Model::load(folder_ / model).device();
    return Selector::load(folder_ / model, {.provider = "native", .device = device, .calls = calls});
  }
  static double cost(const Choice& choice, double calls) {
    return choice.time_us + (choice.setup_us > 0 ? static_cast<double>(choice.setup_us) / calls : 0);
  }
};

TEST_F(SetupTime, AModelsFileKeepsThem) {
  const Model model{with_setup_times()};
  const std::string bytes = model.bytes();
  EXPECT_EQ(bytes[8], 3) << "older programs say that the file is newer";
  const Model again = Model::parse(bytes);
  const std::vector<double>& setup = again.data().families[1].setup_us;
  EXPECT_TRUE(std::isnan(setup[0]));
  EXPECT_EQ(setup[5], 500);
  EXPECT_EQ(again.bytes(), bytes);
  const std::string without = toy::model().bytes();
  EXPECT_EQ(without[8], 2) << "older programs read the file";
  EXPECT_TRUE(Model::parse(without).data().families[0].setup_us.empty());
}

TEST_F(SetupTime, WrongOnesAreRefused) {
  const auto refused = [](double value, std::size_t count) {
    ModelData data = toy::model().data();
    data.families[0].setup_us.assign(count, value);
    test::expect_error(Errc::invalid_argument, "set-up time", [&] { Model{std::move(data)}; });
  };
  refused(1, 11);
  refused(-1, 12);
  refused(HUGE_VAL, 12);
  test::expect_error(Errc::invalid_argument, "calls=-1", [&] { charging(-1); });
}

TEST_F(SetupTime, AChoiceStatesItAndIsUnchangedWithoutCalls) {
  install(folder_ / "without", model_of(device_preset("h200")));
  const Selector known = Selector::load(folder_ / "gpu"), unknown = Selector::load(folder_ / "without");
  const Model model = Model::load(folder_ / "gpu");
  for (const GemmProblem& problem : toy::problems(40, 3)) {
    const Family* const family = model.family(signature_of(problem));
    if (!family) continue;
    const auto stated = known.rank(problem, 100), plain = unknown.rank(problem, 100);
    ASSERT_EQ(stated.size(), plain.size());
    for (std::size_t i = 0; i < stated.size(); ++i) {
      EXPECT_EQ(stated[i].config, plain[i].config);
      EXPECT_EQ(stated[i].time_us, plain[i].time_us);
      EXPECT_EQ(stated[i].score, plain[i].score);
      EXPECT_TRUE(std::isnan(plain[i].setup_us));
      std::size_t config = 0;
      while (family->configs[config] != stated[i].config) ++config;
      if (config > 0) {
        EXPECT_EQ(stated[i].setup_us, 100.0F * static_cast<float>(config));
      }
    }
  }
}

TEST_F(SetupTime, ACachedChoiceKeepsIt) {
  const Selector selector = charging(1000);
  const GemmProblem problem = make_gemm(64, 64, 64);
  const Choice first = selector.select(problem), again = selector.select(problem);
  EXPECT_EQ(again.source, ChoiceSource::cache);
  EXPECT_EQ(first.config, again.config);
  EXPECT_EQ(std::isnan(first.setup_us), std::isnan(again.setup_us));
  if (!std::isnan(first.setup_us)) {
    EXPECT_EQ(first.setup_us, again.setup_us);
  }
}

TEST_F(SetupTime, TheChoiceHasTheLowestTimeWithItsShareOfTheSetup) {
  const Selector free = Selector::load(folder_ / "gpu");
  int changed = 0;
  for (const std::int64_t calls : {1, 50, 100000}) {
    const Selector selector = charging(calls);
    EXPECT_TRUE(selector.warnings().empty());
    const auto shares = static_cast<double>(calls);
    for (const GemmProblem& problem : toy::problems(60, 4)) {
      if (signature_of(problem).layout == Layout::ccr) continue;
      const auto all = free.rank(problem, 100);
      const auto cheapest = std::ranges::min(all, {}, [&](const Choice& c) { return cost(c, shares); });
      std::array<Choice, 2> best;
      ASSERT_EQ(selector.rank(problem, best), 2u);
      EXPECT_EQ(cost(best[0], shares), cost(cheapest, shares));
      EXPECT_GE(best[0].score, best[1].score);
      EXPECT_NEAR(best[0].margin, cost(best[1], shares) / cost(best[0], shares) - 1, 1e-6);
      EXPECT_EQ(selector.select(problem).config, best[0].config);
      const auto longer = selector.rank(problem, 100);
      EXPECT_EQ(longer.size(), all.size());
      EXPECT_EQ(longer[0].config, best[0].config);
      EXPECT_TRUE(std::ranges::is_sorted(longer, std::ranges::greater_equal(), &Choice::score) ||
                  std::ranges::is_sorted(longer, std::ranges::greater(), &Choice::score));
      changed += best[0].config != all[0].config;
    }
  }
  EXPECT_GT(changed, 20);
}

TEST_F(SetupTime, DecisionsForOtherNumbersOfCallsDiffer) {
  const Selector once = charging(1), often = charging(1000000);
  int differ = 0;
  for (const GemmProblem& problem : toy::problems(60, 4)) {
    if (signature_of(problem).layout == Layout::ccr) continue;
    for (int i = 0; i < 2; ++i) {  // decided, then from the cache
      differ += once.select(problem).config != often.select(problem).config;
    }
  }
  EXPECT_GT(differ, 10);
  EXPECT_EQ(differ % 2, 0);
}

TEST_F(SetupTime, AModelWithoutThemWarnsThatCallsHaveNoEffect) {
  const Selector selector = charging(10, "model");
  ASSERT_EQ(selector.warnings().size(), 1u);
  EXPECT_NE(selector.warnings()[0].find("not_charged"), std::string::npos);
  const GemmProblem problem = make_gemm(64, 64, 64);
  EXPECT_EQ(selector.select(problem).config, Selector::load(folder_ / "model").select(problem).config);
}

TEST(SetupTimes, OnACpuOnlyAPrepackedFilterNeedsThem) {
  Family family;
  family.device = device_preset("epyc-7763");
  family.setup_us = {1, 2};
  ConvProblem conv = parse_conv_problem("conv_fwd:1x8x6x6:8x3x3");
  EXPECT_TRUE(setup_times(family, conv).empty());
  EXPECT_TRUE(setup_times(family, make_gemm(8, 8, 8)).empty());
  conv.prepacked = true;
  EXPECT_EQ(setup_times(family, conv).size(), 2u);
  family.device = device_preset("h200");
  conv.prepacked = false;
  EXPECT_EQ(setup_times(family, conv).size(), 2u);
}

TEST_F(SetupTime, ChargingAllocatesNothingOnceWarm) {
  const Selector selector = charging(50);
  std::array<Choice, 2> best;
  std::size_t count = 0;
  const auto ask = [&](std::int64_t size) {
    ASSERT_EQ(selector.try_select(make_gemm(size, 64, 64), best[0]), SelectStatus::ok);
    ASSERT_EQ(selector.try_rank(make_gemm(size, 64, 64), best, count), SelectStatus::ok);
  };
  ask(32);
  const HeapWatch watch;
  for (std::int64_t size = 33; size < 64; ++size) ask(size);
  EXPECT_EQ(watch.allocations(), 0u);
}

}  // namespace
}  // namespace kscout
