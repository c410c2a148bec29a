#include "tune/tune.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <kscout/family.h>

#include "dataset/dataset.h"
#include "dataset/operations.h"
#include "support/expect_error.h"
#include "support/paths.h"
#include "support/temporary_folder.h"
#include "tune/op_tune.h"

namespace kscout {
namespace {

/// A tune of few problems among few configs.
TuneRequest small_tune(const std::filesystem::path& model) {
  return {.budget_s = 2,
          .max_gflop = 0.01,
          .rules = "tiny",
          .out = model.string(),
          .targets = {Target::relative},
          .folds = 2,
          .worker = paths::worker};
}

TEST(Tune, InstallsAModelAndReportsEveryStep) {
  const test::TemporaryFolder folder;
  std::vector<std::string> notes;
  std::size_t trees = 0;
  std::vector<Op> done;
  const TuneResult result =
      tune(small_tune(folder / "model"), {.note = [&](const std::string& text) { notes.push_back(text); },
                                          .training = [&](const std::string&) { ++trees; },
                                          .done = [&](const TunedOp& one) { done.push_back(one.op); }});
  ASSERT_EQ(result.tuned.size(), 1u);
  const TunedOp& gemm = result.tuned.front();
  EXPECT_TRUE(gemm.verdict.why_not.empty());
  EXPECT_EQ(gemm.target, real_model_folder(folder / "model"));
  EXPECT_EQ(gemm.new_problems, gemm.training_problems + gemm.held_out_problems);
  EXPECT_EQ(gemm.verdict.candidate.evaluation.results.size(), gemm.held_out_problems);
  EXPECT_TRUE(Model::load(gemm.target).has(Target::relative));
  EXPECT_FALSE(std::filesystem::exists(folder / "model.sweep"));
  ASSERT_FALSE(notes.empty());
  EXPECT_NE(notes.front().find("configs of rule set 'tiny'"), std::string::npos);
  EXPECT_GT(trees, 0u);
  EXPECT_EQ(done, std::vector{Op::gemm});
}

TEST(Tune, OwnProblemsAreMeasuredAndTheirCallsAddedUp) {
  const test::TemporaryFolder folder;
  TuneRequest request = small_tune(folder / "model");
  const auto own = [](const char* text, double calls) {
    Problem problem = parse_any_problem(text);
    problem.set_weight(calls);
    return problem;
  };
  // Equal problems count together; other operations and types do not count.
  request.problems = {own("gemm:64x96x128", 90),        own("gemm:48x48x300:fp32:crr", 3),
                      own("gemm:64x96x128", 10),        own("gemm:33x17x65:epilogue=bias", 5),
                      own("gemm:8x8x8:bf16", 7),        own("conv_fwd:1x8x8x8:8x3x3", 7),
                      own("gemm:100x20x30:fp32:rrr", 1)};
  EXPECT_EQ(request.own_problems(Op::gemm).size(), 4u);
  EXPECT_TRUE(request.layouts_of(Op::gemm).contains(Layout::crr));
  const TunedOp done = tune(request).tuned.front();
  ASSERT_TRUE(done.own);
  EXPECT_EQ(done.own->given, 4u);
  EXPECT_EQ(done.own->measured, 4u);
  EXPECT_EQ(done.own->left_out, 0u);
  EXPECT_EQ(done.own->all.problems, 4u);
  EXPECT_EQ(done.own->all.calls, 109);
  EXPECT_EQ(done.own->trained_on + done.own->held_out.problems, 4u);
  EXPECT_FALSE(done.own->all.before_us);

  // The same sums from the measurements that stay in the model's folder.
  const MeasurementTable table = read_dataset(done.target / kKeptMeasurements);
  const auto rows = final_rows(table);
  double today_us = 0, fastest_us = 0;
  for (std::size_t i = 0; i < table.problems.size(); ++i) {
    for (const Problem& problem : request.own_problems(Op::gemm)) {
      if (table.problems[i] != problem) continue;
      const Family family = enumerate({.provider = "native",
                                       .signature = signature_of(problem),
                                       .device = table.device,
                                       .rules = "tiny",
                                       .filter = {}});
      for (const FinalRow& row : rows[i])
        if (table.configs[row.config] == family.configs[family.default_config])
          today_us += problem.weight() * row.measured.time_us;
      fastest_us += problem.weight() * oracle_of(rows[i])->measured.time_us;
    }
  }
  EXPECT_DOUBLE_EQ(done.own->all.today_us, today_us);
  EXPECT_DOUBLE_EQ(done.own->all.oracle_us, fastest_us);
  EXPECT_GE(done.own->all.model_us, fastest_us);

  // A later tune measures them no more, and compares the model before on them.
  request.replace = true;
  const TunedOp again = tune(request).tuned.front();
  ASSERT_TRUE(again.own);
  EXPECT_EQ(again.own->measured, 4u);
  ASSERT_TRUE(again.own->all.before_us);
  EXPECT_NEAR(*again.own->all.before_us, done.own->all.model_us, 1e-6 * done.own->all.model_us);
}

TEST(Tune, SaysThatTheMachineWasBusyWhileItMeasured) {
  const test::TemporaryFolder folder;
  TuneRequest request = small_tune(folder / "model");
  const TuneProgress progress{.sweep = [](const SweepPlan& plan, const SweepOptions& options) {
    SweepReport report = run_sweep(plan, options);
    report.load = {.cpus = 4, .others = 2, .seconds = 2};
    return report;
  }};
  const TunedOp done = tune(request, progress).tuned.front();
  EXPECT_EQ(done.busy, "other processes kept 2 of 4 CPUs busy, 50 % (limit 10 %); stop them");
  EXPECT_EQ(done.load.others, 2);
  EXPECT_TRUE(done.verdict.why_not.empty()) << "the model is installed all the same";
  request.max_load = 0.6;
  request.replace = true;
  EXPECT_EQ(tune(request, progress).tuned.front().busy, "");
}

TEST(Tune, RefusesToCompareWithALibraryOnABusyMachine) {
  setenv("KSCOUT_OPENBLAS", paths::stand_in_blas, 1);
  const test::TemporaryFolder folder;
  TuneRequest tuned = small_tune(folder / "model");
  tuned.problems = {parse_any_problem("gemm:64x96x128"), parse_any_problem("gemm:33x17x65")};
  const TunedOp done = tune(tuned).tuned.front();
  const MeasurementTable table = read_dataset(done.target / kKeptMeasurements);

  OwnRequest request{
      .problems = tuned.own_problems(Op::gemm), .against = Against::openblas, .rules = "tiny", .before = {}};
  // The load before the comparison, and during it.
  std::vector<double> others;
  std::size_t samples = 0, measurements = 0;
  request.load_during = [&](const std::function<void()>& work) {
    if (samples == 1) {
      work();
      ++measurements;
    }
    return Load{.cpus = 2, .others = others.at(samples++), .seconds = 1};
  };
  const auto compare = [&](std::vector<double> loads) {
    others = std::move(loads);
    samples = measurements = 0;
    const OwnResult result = evaluate_own(request, done.target, table);
    EXPECT_EQ(samples, others.size());
    EXPECT_EQ(result.library.at("release"), "0.3.99");
    EXPECT_EQ(result.all.problems, 2u);
    return result;
  };
  const OwnResult idle = compare({0.1, 0.1});
  EXPECT_EQ(idle.refused, "");
  EXPECT_GT(idle.all.today_us, 0);
  for (const auto& loads : {std::vector{1.0}, std::vector{0.1, 1.0}}) {
    const OwnResult busy = compare(loads);
    EXPECT_EQ(measurements, loads.size() - 1) << "a busy machine is not asked for times";
    EXPECT_TRUE(std::isnan(busy.all.today_us));
    // The sums of the sweep remain.
    EXPECT_DOUBLE_EQ(busy.all.model_us, done.own->all.model_us);
    EXPECT_DOUBLE_EQ(busy.all.oracle_us, done.own->all.oracle_us);
    EXPECT_EQ(busy.refused,
              "other processes kept 1 of 2 CPUs busy, 50 % (limit 10 %); stop them, then repeat the command, "
              "with a small --budget: what was measured is kept. --max-load 1 compares all the same");
  }
  request.max_load = 1;
  EXPECT_EQ(compare({2, 2}).refused, "");
}

TEST(Tune, GoesOnUntilThereIsEnoughForAModel) {
  const test::TemporaryFolder folder;
  // A machine that is too busy to measure anything in many times the budget.
  constexpr int kBusy = 25;
  int sweeps = 0;
  const auto sweep = [&](const SweepPlan& plan, const SweepOptions& options) {
    if (++sweeps > kBusy) return run_sweep(plan, options);
    write_manifest(options.folder, plan);
    SweepReport report;
    report.ended = "budget";
    return report;
  };
  const TuneResult result = tune(small_tune(folder / "model"), {.sweep = sweep});
  EXPECT_GT(sweeps, kBusy);
  EXPECT_GT(result.tuned.front().training_problems, 0u);
}

TEST(Tune, HeldOutProblemsOfALayoutThatIsNotTrainedAreNotEnough) {
  const test::TemporaryFolder folder;
  const TuneRequest request = small_tune(folder / "model");
  constexpr int kApart = 8;
  int sweeps = 0;
  const auto sweep = [&](const SweepPlan& whole, const SweepOptions& options) {
    if (++sweeps > kApart) return run_sweep(whole, options);
    SweepPlan plan = whole;
    plan.problems.clear();
    plan.candidates.clear();
    for (std::size_t p = 0; p < whole.problems.size(); ++p) {
      const Problem& problem = whole.problems[p];
      const bool is_held_out = group_fraction(problem, kHeldOutSeed, SplitBy::sizes) < request.held_out;
      if (is_held_out != (signature_of(problem).layout == Layout::rcr)) continue;
      plan.problems.push_back(problem);
      plan.candidates.push_back(whole.candidates[p]);
    }
    return run_sweep(plan, options);
  };
  const TuneResult result = tune(request, {.sweep = sweep});
  EXPECT_GT(sweeps, kApart);
  EXPECT_FALSE(result.tuned.front().verdict.candidate.evaluation.results.empty());
}

TEST(Tune, StopsWhenAskedAndKeepsTheSweep) {
  const test::TemporaryFolder folder;
  const std::atomic<bool> stop = true;
  try {
    tune(small_tune(folder / "model"), {.stop = &stop});
    FAIL() << "it went on";
  } catch (const TuneStopped& stopped) {
    EXPECT_EQ(stopped.kept, folder / "model.sweep");
    EXPECT_TRUE(std::filesystem::exists(stopped.kept / "1"));
  }
}

TEST(Tune, RefusesBadRequestsBeforeItMeasures) {
  const test::TemporaryFolder folder;
  const auto refuses = [&](std::string_view why, auto change) {
    TuneRequest request = small_tune(folder / "model");
    change(request);
    test::expect_error(Errc::invalid_argument, why, [&] { tune(request); });
  };
  refuses("1 or more for each of 1 operation", [](TuneRequest& r) { r.budget_s = 0.5; });
  refuses("--max-load -1: a share of 0 to 1", [](TuneRequest& r) { r.max_load = -1; });
  refuses("--held-out 0: a share", [](TuneRequest& r) { r.held_out = 0; });
  refuses("--layout nhwgc: no operation to tune has it (gemm: ",
          [](TuneRequest& r) { r.layouts = {Layout::nhwgc}; });
  refuses("--against openblas: compares on the problems of --problems",
          [](TuneRequest& r) { r.against = Against::openblas; });
  refuses("none of the 1 problems is a gemm of fp32",
          [](TuneRequest& r) { r.problems = {parse_any_problem("gemm:8x8x8:bf16")}; });
  refuses("--against cublaslt: is a library of NVIDIA's GPUs", [](TuneRequest& r) {
    r.problems = {parse_any_problem("gemm:8x8x8")};
    r.against = Against::cublaslt;
  });
  refuses("unknown rule set 'tyni'", [](TuneRequest& r) { r.rules = "tyni"; });
  EXPECT_TRUE(std::filesystem::is_empty(folder / ""));
}

}  // namespace
}  // namespace kscout
