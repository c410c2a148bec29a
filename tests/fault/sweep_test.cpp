// Tests a whole sweep with worker processes over misbehaving configs.
#include <fstream>
#include <set>

#include <gtest/gtest.h>

#include <kscout/error.h>

#include "fault/toy.h"
#include "support/paths.h"
#include "support/temporary_folder.h"
#include "sweep/journal.h"

namespace kscout {
namespace {

namespace fs = std::filesystem;
using toy::Behaviour;

/// SweepOptions::compile_budget_s of sweeps with configs that hang: the first config of a batch may take this
/// much longer than the item limit, so a test waits for both.
constexpr int kCompileBudgetS = 2;

class SweepFaults : public ::testing::Test {
 protected:
  SweepReport sweep(const SweepPlan& plan, SweepOptions options = {}) {
    options.folder = folder_.path();
    options.worker = paths::toy_worker;
    return run_sweep(plan, options);
  }
  MeasurementTable table() const { return read_sweep(folder_.path(), toy::space); }
  std::map<std::uint32_t, Measurement> first_pass(std::uint32_t problem) const {
    std::map<std::uint32_t, Measurement> rows;
    for (const auto& row : table().rows) {
      if (row.problem == problem && row.measured.pass == 1) rows[row.config] = row.measured;
    }
    return rows;
  }

  const test::TemporaryFolder folder_;
};

TEST_F(SweepFaults, TheLoadIsWatched) {
  const Load load = sweep(toy::quick_plan(2, 2)).load;
  EXPECT_GT(load.seconds, 0);
  EXPECT_EQ(load.cpus, static_cast<double>(usable_cpus().size()));
}

TEST_F(SweepFaults, EveryMisbehaviourIsARowWithItsStatus) {
  const std::pair<Behaviour, Status> expected[] = {{Behaviour::good, Status::ok},
                                                   {Behaviour::crash, Status::crashed},
                                                   {Behaviour::leave, Status::crashed},
                                                   {Behaviour::crash_in_prepare, Status::crashed},
                                                   {Behaviour::crash_later, Status::crashed},
                                                   {Behaviour::hang, Status::timeout},
                                                   {Behaviour::wrong, Status::wrong},
                                                   {Behaviour::lazy, Status::wrong},
                                                   {Behaviour::past_end, Status::wrong},
                                                   {Behaviour::before_workspace, Status::wrong},
                                                   {Behaviour::writes_a, Status::crashed},
                                                   {Behaviour::refuse, Status::unsupported},
                                                   {Behaviour::compile, Status::left_out},
                                                   {Behaviour::fail_to_run, Status::crashed},
                                                   {Behaviour::slow, Status::ok},
                                                   {Behaviour::chatter, Status::ok},
                                                   {Behaviour::good, Status::ok}};
  std::vector<KernelConfig> configs;
  for (const auto& [behaviour, status] : expected)
    configs.push_back(toy::config(behaviour, static_cast<int>(configs.size())));
  const auto plan = toy::plan({make_gemm(9, 5, 7), make_gemm(12, 10, 11)}, configs);
  const SweepReport report = sweep(plan, {.item_limit_s = 1, .compile_budget_s = kCompileBudgetS});
  EXPECT_EQ(report.ended, "done");
  for (const std::uint32_t problem : {0u, 1u}) {
    const auto rows = first_pass(problem);
    ASSERT_EQ(rows.size(), configs.size());
    for (std::size_t c = 0; c < configs.size(); ++c) {
      const Measurement& m = rows.at(static_cast<std::uint32_t>(c));
      const auto name = toy::kBehaviourWords[static_cast<std::size_t>(expected[c].first)];
      EXPECT_EQ(m.status, expected[c].second) << name;
      if (expected[c].second == Status::ok) {
        EXPECT_DOUBLE_EQ(m.time_us, expected[c].first == Behaviour::slow ? toy::kSlowUs : toy::kGoodUs)
            << name;
        EXPECT_LE(m.error, 1) << name;
      } else {
        EXPECT_TRUE(std::isnan(m.time_us)) << name << " must have no time to win with";
      }
    }
  }
  // Contenders are only what was right.
  std::size_t contenders = 0;
  for (const auto& row : table().rows) {
    if (row.measured.pass != 2) continue;
    ++contenders;
    EXPECT_EQ(first_pass(row.problem).at(row.config).status, Status::ok);
    if (row.measured.status == Status::ok) {
      EXPECT_GE(row.measured.repeats, 1);
    }
  }
  EXPECT_GE(contenders, 2u);
  EXPECT_EQ(report.by_status[static_cast<std::size_t>(Status::wrong)], 8u);
  EXPECT_EQ(report.reasons.at("wrong: C was written 8 bytes past its end"), 2u);
  EXPECT_EQ(report.reasons.at("unsupported: the toy refuses"), 2u);
}

TEST_F(SweepFaults, OfAFileOfRulesItsNameIsKept) {
  SweepPlan plan = toy::quick_plan(1, 1);
  plan.rules = "/some/machine/few.toml:two";
  sweep(plan);
  EXPECT_EQ(table().metadata.at("rules"), "few.toml:two");
}

TEST_F(SweepFaults, HopelessConfigsArePrunedEarly) {
  std::vector<KernelConfig> configs = {toy::config(Behaviour::slow, 0)};
  for (int c = 0; c < 3; ++c) configs.push_back(toy::config(Behaviour::good, c));
  std::vector<GemmProblem> problems;
  for (int p = 0; p < 8; ++p) problems.push_back(make_gemm(4 + p, 4, 4));
  sweep(toy::plan(problems, configs));
  int pruned_early = 0;
  for (const auto& row : table().rows) {
    if (row.config != 0 || row.measured.pass != 2) continue;
    pruned_early += row.measured.status == Status::pruned_early;
    EXPECT_DOUBLE_EQ(row.measured.time_us, toy::kSlowUs) << "a row pruned early keeps its coarse time";
    EXPECT_LE(row.measured.repeats, 3) << "screening samples, no rounds";
  }
  EXPECT_EQ(pruned_early, 8);
}

TEST_F(SweepFaults, ASecondRunMeasuresNothing) {
  const auto plan = toy::quick_plan(3, 10);
  const auto first = sweep(plan);
  EXPECT_EQ(first.by_status[0] + first.by_status[1], 30u);
  const auto rows = table().rows;
  const auto second = sweep(plan);
  EXPECT_EQ(second.progress.rows, 0u);
  EXPECT_EQ(second.progress.problems_done, 3u);
  EXPECT_EQ(table().rows, rows);
}

TEST_F(SweepFaults, AnotherSweepMayNotShareTheFolder) {
  sweep(toy::quick_plan(2, 3));
  try {
    sweep(toy::quick_plan(3, 3));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::invalid_argument);
    EXPECT_NE(std::string_view(error.what()).find("another sweep"), std::string_view::npos) << error.what();
  }
}

TEST_F(SweepFaults, TheFirstDifferenceOfAnotherSweepIsNamed) {
  SweepPlan plan = toy::quick_plan(2, 3);
  plan.device.max_clock_mhz = 2000;
  sweep(plan);
  const auto expect_named = [&](const SweepPlan& other, std::string_view difference) {
    try {
      sweep(other);
      FAIL() << "accepted; expected: " << difference;
    } catch (const Error& error) {
      EXPECT_NE(std::string_view(error.what()).find(difference), std::string_view::npos) << error.what();
    }
  };
  SweepPlan other = plan;
  other.protocol.rounds = 3;
  expect_named(other, "its protocol.rounds is 2, yours 3");
  other = toy::quick_plan(3, 3);
  other.device = plan.device;
  expect_named(other, "its problems has 2 entries, yours 3");
  other = plan;
  std::swap(other.problems[0], other.problems[1]);
  expect_named(other, "its problems[0] is ");
  other = plan;
  other.device.max_clock_mhz = 3000;
  expect_named(other, "its device.max_clock_mhz is 2000.0, yours 3000.0");
}

TEST_F(SweepFaults, AClockThatDriftedMakesNoOtherSweep) {
  SweepPlan plan = toy::quick_plan(2, 3);
  plan.device.max_clock_mhz = 2595;
  sweep(plan);
  const auto rows = table().rows;
  plan.device.max_clock_mhz = 2596;
  EXPECT_EQ(sweep(plan).progress.rows, 0u);
  EXPECT_EQ(table().rows, rows);
  EXPECT_EQ(table().device.max_clock_mhz, 2595);
}

TEST_F(SweepFaults, AProblemThatTheBudgetCutIsLeftOut) {
  std::vector<KernelConfig> configs = {toy::config(Behaviour::hang, 0)};
  for (int c = 0; c < 12; ++c) configs.push_back(toy::config(Behaviour::good, c));
  const auto plan = toy::plan({make_gemm(4, 4, 4)}, configs);
  EXPECT_EQ(sweep(plan, {.budget_s = 2, .item_limit_s = 60}).ended, "budget");
  ASSERT_FALSE(read_state(folder_.path(), toy::space).rows.empty())
      << "some were measured before the one that hangs";
  std::size_t unfinished = 0;
  EXPECT_TRUE(read_sweep(folder_.path(), toy::space, &unfinished).rows.empty());
  EXPECT_EQ(unfinished, 1u);
  EXPECT_EQ(sweep(plan, {.item_limit_s = 0.2, .compile_budget_s = kCompileBudgetS}).ended, "done");
  EXPECT_GE(read_sweep(folder_.path(), toy::space, &unfinished).rows.size(), configs.size());
  EXPECT_EQ(unfinished, 0u);
}

TEST_F(SweepFaults, BudgetEndsAndTheNextRunContinues) {
  const auto plan = toy::plan({make_gemm(4, 4, 4), make_gemm(5, 4, 4)},
                              {toy::config(Behaviour::hang, 0), toy::config(Behaviour::good, 0)});
  EXPECT_EQ(sweep(plan, {.budget_s = 0.2}).ended, "budget");
  EXPECT_EQ(sweep(plan, {.item_limit_s = 0.2, .compile_budget_s = kCompileBudgetS}).ended, "done");
  EXPECT_EQ(first_pass(0).size() + first_pass(1).size(), 4u);
}

TEST_F(SweepFaults, StopKeepsWhatWasMeasured) {
  const auto plan = toy::quick_plan(4, 20);
  std::atomic<bool> stop = false;
  std::size_t answers = 0;
  const auto report = sweep(plan, {.stop = &stop, .progress = [&](const SweepProgress& p) {
                                     answers = p.rows;
                                     if (p.rows >= 25) stop = true;
                                   }});
  EXPECT_EQ(report.ended, "interrupted");
  EXPECT_GE(read_state(folder_.path(), toy::space).rows.size(), 25u);
  EXPECT_EQ(read_state(folder_.path(), toy::space).last_end, "interrupted");
  const auto rest = sweep(plan);
  EXPECT_EQ(rest.ended, "done");
  EXPECT_EQ(rest.progress.rows + answers, table().rows.size());
}

TEST_F(SweepFaults, ShardsTogetherMeasureEverythingOnce) {
  const auto plan = toy::quick_plan(7, 4);
  for (const int shard : {3, 1, 2}) EXPECT_EQ(sweep(plan, {.shard = shard, .shards = 3}).ended, "done");
  std::set<std::pair<std::uint32_t, std::uint32_t>> keys;
  for (const auto& row : table().rows) {
    if (row.measured.pass != 1) continue;
    EXPECT_TRUE(keys.insert({row.problem, row.config}).second);
  }
  EXPECT_EQ(keys.size(), 28u);
  EXPECT_EQ(sweep(plan).progress.rows, 0u) << "nothing is left for a sweep without shards";
}

TEST_F(SweepFaults, TwoWorkersShareTheProblems) {
  const auto plan = toy::quick_plan(6, 5);
  EXPECT_EQ(sweep(plan, {.workers = 2}).ended, "done");
  EXPECT_EQ(sweep(plan).progress.rows, 0u);
}

TEST_F(SweepFaults, ProblemsThatCannotBeMadeAreUnsupported) {
  const auto plan =
      toy::plan({make_gemm(4, 4, 4, DType::int4), make_gemm(4, 4, 4)}, {toy::config(Behaviour::good, 0)});
  sweep(plan);
  EXPECT_EQ(first_pass(0).at(0).status, Status::unsupported);
  EXPECT_EQ(first_pass(1).at(0).status, Status::ok);
}

TEST_F(SweepFaults, AWorkerThatCannotStartIsOneError) {
  const auto plan = toy::quick_plan(1, 1);
  EXPECT_THROW(run_sweep(plan, {.folder = folder_.path(), .worker = "/no/such/worker"}), Error);
  EXPECT_THROW(run_sweep(plan, {.folder = folder_.path(), .worker = "/bin/false"}), Error);
}

TEST_F(SweepFaults, FixedRepeatsAreCounted) {
  auto plan = toy::quick_plan(2, 3);
  plan.protocol.repeat = 7;
  sweep(plan);
  for (const auto& row : table().rows) {
    EXPECT_EQ(row.measured.repeats, 7);
    EXPECT_EQ(row.measured.pass, 1);
  }
}

TEST_F(SweepFaults, ColdCachesAreRecorded) {
  auto plan = toy::quick_plan(1, 2);
  plan.protocol.cache = CacheState::cold;
  const auto report = sweep(plan);
  EXPECT_GT(report.spent.flushes, 0);
  for (const auto& row : table().rows) EXPECT_EQ(row.measured.cache, CacheState::cold);
  EXPECT_EQ(table().metadata.at("protocol.cache"), "cold");
}

}  // namespace
}  // namespace kscout
