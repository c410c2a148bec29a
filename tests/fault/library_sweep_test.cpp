// Sweeps over the kernels of libraries, by the product's own worker: whatever a kernel does costs its row.
#include <filesystem>

#include <gtest/gtest.h>
#include <stdlib.h>

#include "dispatch/library_backend.h"
#include "libraries/toy_index.h"
#include "support/expect_error.h"
#include "sweep/journal.h"
#include "sweep/sweep.h"

namespace kscout {
namespace {

namespace fs = std::filesystem;

class LibrarySweep : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "kscout_library_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

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
    return make_plan({make_gemm(16, 32, 16), make_gemm(7, 5, 3)}, library_request(library), library.device(),
                     {});
  }
  /// Rows of pass 1 of the first problem, by config.
  std::vector<Status> sweep(const SweepPlan& plan) {
    run_sweep(plan, {.folder = folder_ / "out", .worker = KSCOUT_WORKER, .item_limit_s = 1});
    std::vector<Status> rows(plan.configs.size(), Status::raced);
    for (const auto& row : read_sweep(folder_ / "out").rows) {
      EXPECT_EQ(row.problem, 0u);
      if (row.measured.pass == 1) rows[row.config] = row.measured.status;
    }
    return rows;
  }
  fs::path folder_;
};

TEST_F(LibrarySweep, CrashHangAndWrongResultsCostTheirRowsOnly) {
  LibraryBackend toys = library("toy_good", {"toy_crash", "toy_rcr", "toy_hang", "toy_lie", "toy_never"});
  const SweepPlan all = plan(toys);
  ASSERT_EQ(all.candidates[0].size(), 5u);
  EXPECT_TRUE(all.candidates[1].empty());  // the library's rules keep odd sizes out
  EXPECT_EQ(sweep(all),
            (std::vector{Status::crashed, Status::ok, Status::timeout, Status::wrong, Status::unsupported}));
  EXPECT_FALSE(toys.is_open());  // the workers opened it, this process did not
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
