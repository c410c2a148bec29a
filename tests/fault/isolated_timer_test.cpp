// Tests that misbehaving configs, timed one by one for a search, do not affect each other.
#include "sweep/isolated_timer.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include <kscout/error.h>

#include "fault/toy.h"
#include "support/expect_error.h"
#include "support/paths.h"
#include "support/temporary_folder.h"

namespace kscout {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using toy::Behaviour;

SweepPlan plan_of(const std::vector<Behaviour>& behaviours) {
  std::vector<KernelConfig> configs;
  for (const Behaviour one : behaviours)
    configs.push_back(toy::config(one, static_cast<int>(configs.size())));
  return toy::plan({make_gemm(9, 5, 7)}, configs,
                   {.prune_factor = 1e9, .rounds = 4, .rounds_budget_us = 1e4});
}

TEST(IsolatedTimer, EveryMisbehaviourIsAnOutcomeAndTheNextConfigIsTimed) {
  const std::pair<Behaviour, Status> expected[] = {{Behaviour::good, Status::ok},
                                                   {Behaviour::crash, Status::crashed},
                                                   {Behaviour::leave, Status::crashed},
                                                   {Behaviour::crash_in_prepare, Status::crashed},
                                                   {Behaviour::wrong, Status::wrong},
                                                   {Behaviour::refuse, Status::unsupported},
                                                   {Behaviour::fail_to_run, Status::crashed},
                                                   {Behaviour::chatter, Status::ok},
                                                   {Behaviour::good, Status::ok}};
  std::vector<Behaviour> behaviours;
  for (const auto& [behaviour, status] : expected) behaviours.push_back(behaviour);
  const SweepPlan plan = plan_of(behaviours);
  IsolatedTimer timer(plan, {.worker = paths::toy_worker});
  for (std::uint32_t c = 0; c < behaviours.size(); ++c) {
    SCOPED_TRACE(c);
    const Outcome outcome = timer.coarse(c);
    EXPECT_EQ(outcome.measured.status, expected[c].second) << outcome.reason;
    EXPECT_EQ(std::isfinite(outcome.measured.time_us), expected[c].second == Status::ok);
    EXPECT_EQ(outcome.reason.empty(), expected[c].second == Status::ok);
  }
  EXPECT_NE(timer.coarse(1).reason.find("signal 11"), std::string::npos);
}

TEST(IsolatedTimer, AKernelThatHangsIsKilled) {
  const SweepPlan plan = plan_of({Behaviour::good, Behaviour::hang, Behaviour::good});
  const test::TemporaryFolder folder;
  const fs::path hangs = folder / "hangs";
  setenv(toy::kHangsVariable, hangs.c_str(), 1);
  // However busy the machine is, no other config reaches its limit: the clock moves only while the kernel
  // hangs, and then at each look, also where the first look comes after the kernel's begin.
  std::int64_t now_ns = 0;
  bool may_hang = true;
  IsolatedTimer timer(plan, {.worker = paths::toy_worker, .item_limit_s = 0.3, .clock = [&] {
                               if (may_hang && fs::exists(hangs)) now_ns += 1'000'000'000'000;
                               return now_ns;
                             }});
  EXPECT_EQ(timer.coarse(0).measured.status, Status::ok);
  EXPECT_EQ(timer.coarse(1).measured.status, Status::timeout);
  may_hang = false;
  EXPECT_EQ(timer.coarse(2).measured.status, Status::ok);
  unsetenv(toy::kHangsVariable);
}

TEST(IsolatedTimer, ContendersAreTimedOneByOneWhenTheirWorkerDies) {
  const SweepPlan plan = plan_of({Behaviour::good, Behaviour::crash_later, Behaviour::slow});
  IsolatedTimer timer(plan, {.worker = paths::toy_worker});
  const auto good = timer.contenders({2, 0});
  ASSERT_EQ(good.size(), 2u);
  for (const Outcome& outcome : good) EXPECT_EQ(outcome.measured.pass, 2);
  EXPECT_DOUBLE_EQ(good[0].measured.time_us, toy::kSlowUs) << "in the order asked";
  EXPECT_DOUBLE_EQ(good[1].measured.time_us, toy::kGoodUs);
  const auto mixed = timer.contenders({0, 1, 2});
  ASSERT_EQ(mixed.size(), 3u);
  EXPECT_EQ(mixed[0].measured.status, Status::ok);
  EXPECT_EQ(mixed[1].measured.status, Status::crashed);
  EXPECT_EQ(mixed[2].measured.status, Status::ok);
}

TEST(IsolatedTimer, LeavesNoFileAndRefusesOtherPlansAndWorkers) {
  const test::TemporaryFolder folder;
  setenv("TMPDIR", folder.path().c_str(), 1);
  const auto is_empty = [&] { return std::filesystem::is_empty(folder.path()); };
  const SweepPlan plan = plan_of({Behaviour::good});
  {
    IsolatedTimer timer(plan, {.worker = paths::toy_worker});
    EXPECT_EQ(timer.coarse(0).measured.status, Status::ok);
    EXPECT_TRUE(is_empty());
  }
  const SweepPlan two = toy::plan({make_gemm(9, 5, 7), make_gemm(5, 5, 5)}, plan.configs);
  expect_error(Errc::invalid_argument, "a plan of 2 problems",
               [&] { IsolatedTimer(two, {.worker = paths::toy_worker}); });
  IsolatedTimer broken(plan, {.worker = "/bin/false"});
  expect_error(Errc::device_failure, "ended before it was ready", [&] { broken.coarse(0); });
  EXPECT_TRUE(is_empty());
  unsetenv("TMPDIR");
}

}  // namespace
}  // namespace kscout
