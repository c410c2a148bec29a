// Checks that a warm selector allocates nothing.
#include <array>
#include <thread>

#include <kscout/selector.h>

#include "support/heap.h"
#include "support/models_folder.h"

namespace kscout {
namespace {

using HotPath = toy::ModelsFolder;

/// One problem of each way to be answered: two signatures of the model, one left to the analytic cost.
std::array<GemmProblem, 3> problems(std::int64_t size) {
  return {make_gemm(size, 64, 64), make_gemm(size, 64, 64, DType::fp32, Layout::crr),
          make_gemm(size, 64, 64, DType::fp32, Layout::ccr)};
}

void ask(const Selector& selector, std::int64_t size) {
  std::array<Choice, 5> best;
  std::size_t count = 0;
  for (const GemmProblem& problem : problems(size)) {
    for (int i = 0; i < 3; ++i) {  // decided once, then from the cache
      ASSERT_EQ(selector.try_select(problem, best[0]), SelectStatus::ok);
    }
    ASSERT_EQ(selector.try_rank(problem, best, count), SelectStatus::ok);
    ASSERT_GE(count, 3u);
  }
  GemmProblem bad = problems(1)[0];
  bad.batch = 0;
  ASSERT_EQ(selector.try_select(bad, best[0]), SelectStatus::bad_problem);
}

TEST_F(HotPath, AllocatesNothingOnceWarm) {
  Selector selector = Selector::load(folder_ / "model");
  ask(selector, 32);
  const HeapWatch watch;
  for (std::int64_t size = 33; size < 64; ++size) ask(selector, size);
  selector.clear_cache();
  ask(selector, 32);
  EXPECT_EQ(watch.allocations(), 0u);
  EXPECT_GT(selector.cache_statistics().hits, 0u);
}

TEST_F(HotPath, AllocatesNothingInThreadsThatTakeTheSeatsOfOthers) {
  const Selector selector = Selector::load(folder_ / "model");
  ask(selector, 32);
  std::size_t allocations = 1;
  std::thread([&] {
    const HeapWatch watch;
    for (std::int64_t size = 33; size < 64; ++size) ask(selector, size);
    allocations = watch.allocations();
  }).join();
  EXPECT_EQ(allocations, 0u);
}

}  // namespace
}  // namespace kscout
