// Tests sweeps over the kernels of libraries with kscout-worker: a misbehaving kernel affects its own row
// only.
#include <algorithm>
#include <filesystem>

#include <gtest/gtest.h>
#include <stdlib.h>

#include "backend/library/library_backend.h"
#include "libraries/toy_index.h"
#include "support/expect_error.h"
#include "support/paths.h"
#include "support/temporary_folder.h"
#include "sweep/journal.h"
#include "sweep/sweep.h"

namespace kscout {
namespace {

namespace fs = std::filesystem;

class LibrarySweep : public ::testing::Test {
 protected:
  /// An index of a library with these kernels, on tiles of 16, 32, 48, ....
  LibraryBackend library(const std::string& file, const std::vector<std::string>& kernels) {
    auto index = toy::index(toy::library_file(file));
    index["kernels"].clear();
    int tile = 0;
    for (const std::string& kernel : kernels)
      index["kernels"].push_back(
          {{"config", toy::config_name(Layout::rcr, false, tile += 16)}, {"kernel", kernel}});
    write_file_atomically(folder_ / "toy.kscout-library.json", index.dump(1));
    return LibraryBackend(read_library_index(folder_ / "toy.kscout-library.json"));
  }
  SweepPlan plan(LibraryBackend& library) {
    // No early pruning: which configs are timed to the end would depend on how busy the machine is.
    return make_plan({make_gemm(16, 32, 16), make_gemm(7, 5, 3)}, library_request(library), library.device(),
                     {.prune_factor = 1e9});
  }
  /// Rows of pass 1 of the first problem, by config.
  std::vector<Status> sweep(const SweepPlan& plan, SweepOptions options = {}) {
    options.folder = folder_ / "out";
    options.worker = paths::worker;
    options.item_limit_s = 1;
    reasons_ = run_sweep(plan, options).reasons;
    std::vector<Status> rows(plan.configs.size(), Status::pruned_early);
    for (const auto& row : read_sweep(folder_ / "out").rows) {
      EXPECT_EQ(row.problem, 0u);
      if (row.measured.pass == 1) rows[row.config] = row.measured.status;
    }
    return rows;
  }
  const test::TemporaryFolder folder_;
  std::map<std::string, std::size_t> reasons_;  ///< why rows of the last sweep are not ok
};

TEST_F(LibrarySweep, CrashHangAndWrongResultsCostTheirRowsOnly) {
  LibraryBackend toys = library("toy_good", {"toy_crash", "toy_rcr", "toy_hang", "toy_lie", "toy_never"});
  const SweepPlan all = plan(toys);
  ASSERT_EQ(all.candidates[0].size(), 5u);
  EXPECT_TRUE(all.candidates[1].empty());  // the library's rules keep odd sizes out
  // The kernel that hangs is the first of a batch, after the one that crashes: its limit includes compiling.
  EXPECT_EQ(sweep(all, {.compile_budget_s = 2}),
            (std::vector{Status::crashed, Status::ok, Status::timeout, Status::wrong, Status::unsupported}));
  EXPECT_FALSE(toys.is_open());  // the workers opened it, this process did not
}

TEST_F(LibrarySweep, KernelsThatAreRightForOrdinaryCallsOnlyAreWrong) {
  LibraryBackend toys = library(
      "toy_good", {"toy_without_alpha", "toy_packed", "toy_aligned", "toy_refusing_alpha", "toy_rcr"});
  EXPECT_EQ(sweep(plan(toys)),
            (std::vector{Status::wrong, Status::wrong, Status::wrong, Status::ok, Status::ok}));
  for (const char* variant : {"with alpha 0.75", "with leading dimensions 16 elements larger than packed",
                              "with operands aligned to their elements only"}) {
    EXPECT_TRUE(std::ranges::any_of(reasons_, [&](const auto& reason) {
      return reason.first.starts_with(fmt::format("wrong: {}: ", variant));
    })) << variant;
  }
}

TEST_F(LibrarySweep, ABatchIsMeasuredByAProcessOfItsOwn) {
  LibraryBackend toys = library("toy_good", {"toy_rcr", "toy_rcr", "toy_rcr", "toy_crash", "toy_rcr"});
  setenv("TOY_LIBRARY_OPENED", (folder_ / "opened").c_str(), 1);
  const auto processes = [&](std::size_t batch) {
    fs::remove_all(folder_ / "out");
    fs::remove(folder_ / "opened");
    std::vector<Status> expected(5, Status::ok);
    expected[3] = Status::crashed;
    EXPECT_EQ(sweep(plan(toys), {.batch = batch}), expected);
    const std::string opened = read_file(folder_ / "opened");
    return std::ranges::count(opened, '\n');
  };
  const auto unlimited = processes(0), by_two = processes(2);
  unsetenv("TOY_LIBRARY_OPENED");
  EXPECT_LE(unlimited, 3);  // two for the kernel that crashes, one for all others
  EXPECT_GE(by_two, 4);     // five configs by twos, and the contenders
}

TEST_F(LibrarySweep, ConvolutionsAreMeasuredToo) {
  write_file_atomically(folder_ / "toy.kscout-library.json",
                        toy::conv_index(toy::library_file("toy_conv"), "cpu", "gfx950", Op::conv_bwd_weight,
                                        {"toy_conv_bwd_weight", "toy_conv_crash", "toy_conv_fwd"})
                            .dump(1));
  LibraryBackend toys(read_library_index(folder_ / "toy.kscout-library.json"));
  const auto problem = parse_conv_problem("conv_bwd_weight:2x8x7x5:16x3x3:pad=1");
  const SweepPlan all = make_plan({problem}, library_request(toys), toys.device(), {});
  EXPECT_EQ(all.op, Op::conv_bwd_weight);
  EXPECT_EQ(sweep(all), (std::vector{Status::ok, Status::crashed, Status::wrong}));
  const MeasurementTable table = read_sweep(folder_ / "out");
  EXPECT_EQ(table.problems.front(), Problem(problem));
  test::expect_error(Errc::invalid_argument, "a sweep is of one operation", [&] {
    make_plan({problem, make_gemm(8, 8, 8)}, library_request(toys), toys.device(), {});
  });
}

TEST_F(LibrarySweep, ASymbolThatIsMissingIsTold) {
  LibraryBackend toys = library("toy_good", {"toy_rcr", "toy_of_the_future"});
  EXPECT_EQ(sweep(plan(toys)), (std::vector{Status::crashed, Status::crashed}));
}

TEST_F(LibrarySweep, ALibraryThatWasBuiltAnewIsAnotherSweep) {
  LibraryBackend toys = library("toy_good", {"toy_rcr"});
  sweep(plan(toys));
  LibraryBackend other = library("toy_gpu", {"toy_rcr"});
  test::expect_error(Errc::invalid_argument, "another sweep",
                     [&] { write_manifest(folder_ / "out", plan(other)); });
}

}  // namespace
}  // namespace kscout
