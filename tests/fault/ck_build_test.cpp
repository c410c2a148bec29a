/// \file
/// Runs CK Tile's benchmark executables end to end, replaced by programs that compute on the CPU and
/// misbehave on request.
#include "provider/ck_tile/sweep/ck_build.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/files.h"
#include "core/process.h"
#include "support/expect_error.h"
#include "support/paths.h"
#include "support/temporary_folder.h"

namespace kscout {
namespace {

namespace fs = std::filesystem;
using test::expect_error;

std::string kernel_name(int tile_n) {
  return fmt::format(
      "gemm_universal_fp16_rcr_compv3_cshuffle_intrawave_True_True_True_False_64x{}x64_2x2x1_16x16x16",
      tile_n);
}

class CkBuildTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_ / "bin"); }

  /// An executable of the build; an empty mode behaves.
  std::string add(int tile_n, const std::string& mode = "") {
    const std::string name = kernel_name(tile_n);
    const fs::path program = folder_ / "bin" / ("benchmark_" + name);
    fs::create_symlink(paths::ck_benchmark, program);
    if (!mode.empty()) std::ofstream(program.string() + ".mode") << mode;
    return name;
  }
  void list(const std::string& names) {
    const fs::path place = folder_ / "tile_engine/ops/gemm/gemm_universal/fp16/rcr";
    fs::create_directories(place);
    std::ofstream(place / "gemm_universal_kernel_list.txt") << names;
  }
  CkSweepReport sweep(double limit_s = 20) {
    const std::vector<Problem> problems = {make_gemm(8, 16, 32, DType::fp16), make_gemm(4, 4, 4, DType::fp16),
                                           make_gemm(4, 4, 4, DType::bf16)};  // no kernel of this build
    return sweep_ck_build(find_ck_kernels({folder_.path()}), problems,
                          {.out = folder_ / "out",
                           .warmup = 1,
                           .repeat = 2,
                           .verify = true,
                           .limit_s = limit_s,
                           .device = device_preset("gfx950")});
  }
  const test::TemporaryFolder folder_;
};

std::size_t count(const CkSweepReport& report, Status status) {
  return static_cast<std::size_t>(std::ranges::count_if(
      report.table.rows, [&](const auto& row) { return row.measured.status == status; }));
}

TEST_F(CkBuildTest, AFolderWithOtherFilesIsRefused) {
  add(64);
  fs::create_directories(folder_ / "out");
  std::ofstream(folder_ / "out/notes.txt") << "mine";
  expect_error(Errc::invalid_argument, {"holds notes.txt and no sweep"}, [&] { sweep(); });
  EXPECT_FALSE(fs::exists(folder_ / "out/runs.jsonl"));
  fs::remove(folder_ / "out/notes.txt");
  sweep();
  std::ofstream(folder_ / "out/notes.txt") << "mine";
  EXPECT_EQ(sweep().kept, 2u) << "a sweep's own folder may hold other files";
}

TEST_F(CkBuildTest, MeasuresWhatIsThereAndGoesOn) {
  add(64);
  add(128);
  fs::create_symlink(paths::ck_benchmark, folder_ / "bin/benchmark_of_something_else");
  const CkSweepReport first = sweep();
  EXPECT_EQ(first.ran, 4u);  // two kernels, two problems of their type
  EXPECT_EQ(first.problems_without_kernel, 1u);
  EXPECT_EQ(count(first, Status::ok), 4u);
  EXPECT_TRUE(first.failures.empty());
  for (const auto& row : first.table.rows) EXPECT_GT(row.measured.time_us, 0);

  // The last line of an interrupted run was cut: it is measured again, the others are kept.
  const std::string runs = read_file(folder_ / "out/runs.jsonl");
  std::ofstream(folder_ / "out/runs.jsonl", std::ios::trunc) << runs.substr(0, runs.size() - 5);
  const CkSweepReport second = sweep();
  EXPECT_EQ(second.kept, 3u);
  EXPECT_EQ(second.ran, 1u);
  EXPECT_EQ(second.table.rows.size(), 4u);
  EXPECT_EQ(sweep().ran, 0u);

  std::ofstream(folder_ / "out/runs.jsonl", std::ios::trunc) << "{}\n" << runs;
  expect_error(Errc::corrupt_data, "line 1 is damaged", [&] { sweep(); });
}

TEST_F(CkBuildTest, EveryWayToFailCostsOneRow) {
  std::string names = kernel_name(16) + "|extra\n";  // listed, not built
  for (const auto& [tile, mode] : std::vector<std::pair<int, std::string>>{{32, "crash"},
                                                                           {64, "wrong"},
                                                                           {96, "zero"},
                                                                           {128, "garbage"},
                                                                           {160, "exit"},
                                                                           {192, "other"},
                                                                           {256, ""}})
    names += add(tile, mode) + "\n";
  list(names);
  const CkSweepReport report = sweep();
  ASSERT_EQ(report.table.rows.size(), 16u);
  EXPECT_EQ(count(report, Status::ok), 2u);
  EXPECT_EQ(count(report, Status::crashed), 2u);
  EXPECT_EQ(count(report, Status::wrong), 2u);
  EXPECT_EQ(count(report, Status::unsupported), 10u);
  const auto says = [&](std::string_view text) {
    return std::ranges::any_of(report.failures, [&](const std::string& f) { return f.find(text) != f.npos; });
  };
  EXPECT_TRUE(says("the build has no benchmark_"));
  EXPECT_TRUE(says("Segmentation fault"));
  EXPECT_TRUE(says("its own verification failed"));
  EXPECT_TRUE(says("are no result"));
  EXPECT_TRUE(says("printed no JSON"));
  EXPECT_TRUE(says("exit code 3"));
  EXPECT_TRUE(says("answered for another k"));
}

TEST_F(CkBuildTest, WhatHangsIsEnded) {
  add(64, "hang");
  const CkSweepReport report = sweep(0.05);
  EXPECT_EQ(count(report, Status::timeout), 2u);
}

TEST_F(CkBuildTest, SaysWhatABuildLacks) {
  expect_error(Errc::not_found, {"no kernels of fp16 rcr", "gemm_universal_kernel_list.txt"},
               [&] { find_ck_kernels({folder_.path()}); });
  list("gemm_universal_of_the_future\n");
  expect_error(Errc::corrupt_data, "gemm_universal_of_the_future",
               [&] { find_ck_kernels({folder_.path()}); });
}

TEST(RunProgram, TellsHowAProgramEnded) {
  EXPECT_EQ(run_program({"printf", "a b"}, 10).output, "a b");
  EXPECT_EQ(run_program({"sh", "-c", "exit 7"}, 10).ending(), "exit code 7");
  EXPECT_EQ(run_program({"sh", "-c", "kill -9 $$"}, 10).signal, 9);
  // A child that keeps the output open ends with its parent.
  const ProgramResult late = run_program({"sh", "-c", "echo early; sleep 60 & wait"}, 0.2);
  EXPECT_TRUE(late.timed_out);
  EXPECT_EQ(late.output, "early\n");
  expect_error(Errc::not_found, "cannot be started", [] { run_program({"/no/such/program"}, 1); });
}

}  // namespace
}  // namespace kscout
