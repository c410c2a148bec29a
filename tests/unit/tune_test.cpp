#include "tune/tune.h"

#include <filesystem>

#include <gtest/gtest.h>

#include <kscout/family.h>

#include "dataset/dataset.h"
#include "dataset/operations.h"
#include "support/expect_error.h"
#include "support/paths.h"
#include "support/temporary_folder.h"

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
