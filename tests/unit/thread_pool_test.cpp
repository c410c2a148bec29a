#include "backend/cpu/common/thread_pool.h"

#include <array>

#include <gtest/gtest.h>

namespace kscout::cpu {
namespace {

/// More threads than many machines have cores: the calling thread and late workers compete for parts.
constexpr int kParts = 6;
using Counts = std::array<long, kParts>;

TEST(ThreadPool, ThreadsRunEachPartOnceWithTheDataOfItsTask) {
  ThreadPool pool;
  pool.reserve(kParts);
  struct Task {
    Counts counts{};
    long number = 0;
  } task;
  Counts expected{};
  for (long number = 0; number < 20000; ++number) {
    const int parts = 2 + static_cast<int>(number % (kParts - 1));
    task.number = number;
    pool.run(
        parts,
        [](void* data, int part) {
          Task& of = *static_cast<Task*>(data);
          of.counts[static_cast<std::size_t>(part)] += 1 + of.number;
        },
        &task);
    for (int i = 0; i < parts; ++i) expected[static_cast<std::size_t>(i)] += 1 + number;
    ASSERT_EQ(task.counts, expected) << number;
  }
}

}  // namespace
}  // namespace kscout::cpu
