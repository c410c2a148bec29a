#include "tune/tune.h"

#include <filesystem>

#include <gtest/gtest.h>

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
  refuses("unknown rule set 'tyni'", [](TuneRequest& r) { r.rules = "tyni"; });
  EXPECT_TRUE(std::filesystem::is_empty(folder / ""));
}

}  // namespace
}  // namespace kscout
