#include "tune/stages.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include <kscout/family.h>

#include "op/problem_sets.h"

namespace kscout {
namespace {

/// 160 GFLOPS.
Device two_cores() {
  Device device;
  device.kind = DeviceKind::cpu;
  device.name = "test-2c";
  device.isa = "avx2";
  device.cores = 2;
  device.vector_bytes = 32;
  device.fma_per_cycle = 2;
  device.max_clock_mhz = 2500;
  device.l1_bytes = 32768;
  device.l2_bytes = 1 << 20;
  device.l3_bytes = 1 << 25;
  return device;
}

double largest_gflop(const TuneStage& stage) {
  return flop_count(*std::ranges::max_element(stage.problems, {},
                                              [](const Problem& one) { return flop_count(one); })) /
         1e9;
}

TEST(TuneStages, ClassesThatTheBudgetPaysForShareIt) {
  const auto stages = tune_stages(Op::gemm, {}, two_cores(), 60, {});
  ASSERT_EQ(stages.size(), 3u);  // three problems of 10 GFLOP would cost more than the share of their class
  EXPECT_EQ(stages.front().name, "0.0_to_0.1 GFLOP");
  EXPECT_EQ(stages.back().name, "1_to_10 GFLOP");
  EXPECT_NEAR(stages[0].share, 0.2 / 0.75, 1e-9);
  EXPECT_NEAR(stages[1].share, 0.25 / 0.55, 1e-9);
  EXPECT_EQ(stages[2].share, 1);
  std::set<Layout> layouts;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    for (const Problem& problem : stages[i].problems) {
      EXPECT_EQ(static_cast<std::size_t>(size_class(problem)), i);
      layouts.insert(signature_of(problem).layout);
    }
  }
  EXPECT_EQ(layouts.size(), 4u);
  EXPECT_LT(largest_gflop(stages.back()), 10);

  const auto longer = tune_stages(Op::gemm, {}, two_cores(), 600, {});
  ASSERT_EQ(longer.size(), 4u);
  EXPECT_GT(largest_gflop(longer.back()), 20);
  // Of convolutions a config costs more.
  const auto convs = tune_stages(Op::conv_fwd, {}, two_cores(), 60, {});
  EXPECT_LT(largest_gflop(convs.back()), 2);
}

TEST(TuneStages, LimitsAndMeasuredProblemsAreLeftOut) {
  const auto stages = tune_stages(Op::gemm, {.max_gflop = 0.05}, two_cores(), 60, {});
  ASSERT_EQ(stages.size(), 1u);
  EXPECT_EQ(stages[0].share, 1);
  EXPECT_LE(largest_gflop(stages[0]), 0.05);
  const std::unordered_set<Problem> measured(stages[0].problems.begin(), stages[0].problems.end());
  for (const TuneStage& stage : tune_stages(Op::gemm, {.max_gflop = 0.05}, two_cores(), 60, measured)) {
    for (const Problem& problem : stage.problems) EXPECT_FALSE(measured.contains(problem));
  }
}

TEST(TuneStages, TheWeightiestProblemsAreMeasured) {
  std::vector<Problem> problems;
  for (const char* text : {"gemm:64x64x64", "gemm:512x512x512", "gemm:1024x1024x1024", "gemm:256x256x256"})
    problems.push_back(parse_any_problem(text));
  problems[0].set_weight(1);
  problems[1].set_weight(1000);
  problems[2].set_weight(2);
  problems[3].set_weight(10);
  const SweepPlan plan = make_plan(problems, {}, two_cores(), {});
  EXPECT_EQ(weightiest_of(plan, 1e6).size(), 4u);
  const double first_two = estimate_seconds(plan, 1) + estimate_seconds(plan, 2);
  EXPECT_EQ(weightiest_of(plan, 1.01 * first_two), (std::vector{problems[1], problems[2]}));
  EXPECT_EQ(weightiest_of(plan, 0), std::vector{problems[1]});
}

TEST(Guided, LongCallsGetFewConfigs) {
  const Device device = two_cores();
  PlanRequest request{.max_configs = 0};
  const Problem large = parse_any_problem("gemm:2048x2048x1024:fp32:rrr"),
                similar = parse_any_problem("gemm:2048x1024x2048:fp32:rrr"),
                small = parse_any_problem("gemm:64x64x64:fp32:rrr");
  const SweepPlan whole = make_plan({large, small}, request, device, {});
  ASSERT_GT(expected_call_us(large, device), 5000);
  ASSERT_LT(expected_call_us(small, device), 5000);

  GuidedBy few{.above_us = 5000, .model = {}, .analytic = 3, .drawn = 2, .with_default = true, .also = {}};
  const auto planned = [&] {
    request.narrow = guided_by(few, request, device);
    return make_plan({large, small}, request, device, {});
  };
  const SweepPlan plan = planned();
  EXPECT_EQ(plan.candidates[1].size(), whole.candidates[1].size());
  EXPECT_GE(plan.candidates[0].size(), 5u);
  EXPECT_LE(plan.candidates[0].size(), 6u);
  const auto measures = [](const SweepPlan& of, const KernelConfig& config) {
    return std::ranges::any_of(of.candidates[0], [&](std::uint32_t at) { return of.configs[at] == config; });
  };
  const Family family = enumerate({.provider = "native",
                                   .signature = signature_of(large),
                                   .device = device,
                                   .rules = "default",
                                   .filter = {}});
  EXPECT_TRUE(measures(plan, family.configs[family.default_config]));

  // What won on a similar problem.
  const KernelConfig other = whole.configs[*std::ranges::find_if(
      whole.candidates[0], [&](std::uint32_t at) { return !measures(plan, whole.configs[at]); })];
  few.winners = {{similar, other}};
  EXPECT_TRUE(measures(planned(), other));
}

}  // namespace
}  // namespace kscout
