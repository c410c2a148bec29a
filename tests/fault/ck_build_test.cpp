/// \file
/// Runs CK Tile's benchmark executables end to end, replaced by programs that compute on the CPU and
/// misbehave on request.
#include "provider/ck_tile/sweep/ck_build.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>

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
  CkSweepReport sweep(double limit_s = 20, std::optional<unsigned> jobs = {}) {
    const std::vector<Problem> problems = {make_gemm(8, 16, 32, DType::fp16), make_gemm(4, 4, 4, DType::fp16),
                                           make_gemm(4, 4, 4, DType::bf16)};  // no kernel of this build
    return sweep_ck_build(find_ck_kernels({folder_.path()}), problems,
                          {.out = folder_ / "out",
                           .warmup = 1,
                           .repeat = 2,
                           .verify = true,
                           .limit_s = limit_s,
                           .build = folder_.path(),
                           .jobs = jobs,
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

TEST_F(CkBuildTest, NinjaBuildsWhatIsMissingAndAKernelThatFailsCostsItsRows) {
  const auto ninja = [&](int tile_n, std::string_view rule) {
    const std::string program = "benchmark_" + kernel_name(tile_n);
    return fmt::format("build bin/{0}: {1}\nbuild {0}: phony bin/{0}\n", program, rule);
  };
  add(32);
  list(kernel_name(32) + "\n" + kernel_name(64) + "\n" + kernel_name(128) + "\n" + kernel_name(256) + "\n");
  EXPECT_EQ(sweep().ran, 8u);  // 6 of them rows of missing programs
  expect_error(Errc::not_found, {"no build.ninja", "cmake -G Ninja"}, [&] { sweep(20, 2); });

  std::ofstream(folder_ / "build.ninja")
      << "rule copy\n  command = cp " << paths::ck_benchmark << " $out\n"
      << "rule fail\n  command = echo 'In file k.hpp:'; echo 'k.hpp:3: error: no such warp tile'; exit 1\n"
      << ninja(32, "fail") << ninja(64, "copy") << ninja(128, "fail");
  const CkSweepReport report = sweep(20, 2);
  EXPECT_EQ(report.built, 1u) << "what is there is not built, 32 would fail";
  EXPECT_EQ(report.ran, 2u) << "the rows of the program that is there now";
  EXPECT_EQ(count(report, Status::ok), 4u);
  EXPECT_EQ(count(report, Status::unsupported), 4u);
  EXPECT_NE(read_file(folder_ / "out/build.log").find("FAILED"), std::string::npos);

  fs::remove_all(folder_ / "out");
  const CkSweepReport anew = sweep(20, 0);
  EXPECT_EQ(anew.built, 0u);
  const auto reason = [&](int tile_n) {
    const auto of = std::ranges::find_if(
        anew.failures, [&](const std::string& f) { return f.starts_with(kernel_name(tile_n) + " "); });
    return of == anew.failures.end() ? std::string() : *of;
  };
  EXPECT_NE(reason(128).find("unsupported: not built: k.hpp:3: error: no such warp tile"), std::string::npos)
      << reason(128);
  EXPECT_NE(reason(256).find("the build has no target benchmark_"), std::string::npos) << reason(256);
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
