#include "backend/cpu/common/thread_pool.h"

#include <array>
#include <cfenv>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <thread>

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

TEST(ThreadPool, ThreadsComputeWithTheCallersRounding) {
  ThreadPool pool;
  pool.reserve(kParts);
  std::array<float, kParts> thirds{};
  const auto third = [](void* data, int part) {
    const volatile float one = 1, three = 3;
    (*static_cast<std::array<float, kParts>*>(data))[static_cast<std::size_t>(part)] = one / three;
  };
  for (const int mode : {FE_UPWARD, FE_TONEAREST, FE_DOWNWARD, FE_TONEAREST}) {
    std::fesetround(mode);
    pool.run(kParts, third, &thirds);
    std::fesetround(FE_TONEAREST);
    const float nearest = 1.0F / 3.0F;
    const float expected = mode == FE_DOWNWARD ? std::nextafter(nearest, 0.0F) : nearest;
    for (const float each : thirds) EXPECT_EQ(each, expected) << mode;
  }
}

#if defined(__linux__)
std::ptrdiff_t thread_count() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

TEST(ThreadPool, ThreadsThatAreIdleEndAndAreStartedAgain) {
  ThreadPool pool;
  std::thread([] {}).join();  // a sanitizer starts a thread of its own with the first
  const std::ptrdiff_t before = thread_count();
  pool.reserve(3);
  EXPECT_EQ(thread_count(), before + 2);
  for (int round = 0; round < 2; ++round) {
    Counts counts{};
    pool.run(
        3, [](void* data, int part) { ++(*static_cast<Counts*>(data))[static_cast<std::size_t>(part)]; },
        &counts);
    EXPECT_EQ(counts, (Counts{1, 1, 1}));
    for (int i = 0; i < 1000 && thread_count() > before; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_EQ(thread_count(), before);
  }
}

TEST(ThreadPool, ThreadsBlockTheSignalsOfTheProgram) {
  ThreadPool pool;
  pool.reserve(2);
  struct Masks {
    sigset_t of[2];
  } masks;
  for (int i = 0; i < 100; ++i) {  // until a worker, not the calling thread, has run part 1
    pool.run(
        2,
        [](void* data, int part) {
          if (part == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          pthread_sigmask(SIG_BLOCK, nullptr, &static_cast<Masks*>(data)->of[part]);
        },
        &masks);
    if (sigismember(&masks.of[1], SIGUSR1)) break;
  }
  EXPECT_TRUE(sigismember(&masks.of[1], SIGUSR1));
  EXPECT_FALSE(sigismember(&masks.of[1], SIGSEGV));
  EXPECT_FALSE(sigismember(&masks.of[0], SIGUSR1));
}
#endif

}  // namespace
}  // namespace kscout::cpu
