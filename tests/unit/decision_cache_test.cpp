#include "select/decision_cache.h"

#include <algorithm>
#include <barrier>
#include <bit>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "core/hash.h"
#include "core/thread_number.h"
#include "support/share.h"
#include "support/toy.h"

namespace kscout {
namespace {

/// A decision that can be told from every other: each part follows from `number`.
Choice choice_of(std::int32_t number) {
  Choice choice;
  choice.config = toy::family().configs[0];
  for (std::size_t axis = 0; axis < choice.config.space->axes.size(); ++axis) {
    choice.config[axis] = number + static_cast<std::int32_t>(axis);
  }
  double part = number;
  for (double Choice::*field : {&Choice::time_us, &Choice::tflops, &Choice::gb_s, &Choice::margin,
                                &Choice::confidence, &Choice::score}) {
    choice.*field = part += 0.5;
  }
  choice.setup_us = static_cast<float>(part) + 1;
  choice.suggestion_us = static_cast<float>(part) + 2;
  choice.source = ChoiceSource::model;
  choice.decided_by = static_cast<ChoiceSource>(number % 7);
  return choice;
}

void expect_same(const Choice& found, const Choice& kept) {
  EXPECT_EQ(found.config, kept.config);
  for (double Choice::*field : {&Choice::time_us, &Choice::tflops, &Choice::gb_s, &Choice::margin,
                                &Choice::confidence, &Choice::score}) {
    EXPECT_EQ(std::bit_cast<std::uint64_t>(found.*field), std::bit_cast<std::uint64_t>(kept.*field));
  }
  EXPECT_EQ(found.setup_us, kept.setup_us);
  EXPECT_EQ(found.suggestion_us, kept.suggestion_us);
  EXPECT_EQ(found.source, ChoiceSource::cache);
  EXPECT_EQ(found.decided_by, kept.decided_by);
}

TEST(DecisionCache, KeepsWholeDecisions) {
  DecisionCache cache(64);
  Choice kept = choice_of(7);
  kept.confidence = Choice::unknown;
  kept.decided_by = ChoiceSource::analytic;
  const auto key = cache.key(make_gemm(1, 2, 3), By::best);
  Choice found;
  EXPECT_FALSE(cache.find(key, found));
  cache.add(key, kept);
  ASSERT_TRUE(cache.find(key, found));
  expect_same(found, kept);
  cache.add(key, choice_of(8));  // decided again by another thread: one place, not two
  ASSERT_TRUE(cache.find(key, found));
  expect_same(found, choice_of(8));
  cache.clear();
  EXPECT_FALSE(cache.find(cache.key(make_gemm(1, 2, 3), By::best), found));
  const CacheStatistics statistics = cache.statistics();
  EXPECT_EQ(statistics.hits, 2u);
  EXPECT_EQ(statistics.misses, 2u);
  EXPECT_EQ(statistics.evictions, 0u);
}

TEST(DecisionCache, KeyHoldsEveryFieldOfAConvolutionsIdentity) {
  const DecisionCache cache(4);
  const ConvProblem problem = parse_conv_problem("conv_fwd:8x64x56x56:128x3x3:bf16:nhwgc:pad=1");
  const auto key = cache.key(problem, By::best);
  for_each_field<ConvProblem>([&](const auto& field) {
    ConvProblem other = problem;
    using V = std::remove_cvref_t<decltype(other.*field.member)>;
    other.*field.member = static_cast<V>(static_cast<int>(other.*field.member) + 1);
    EXPECT_EQ(cache.key(other, By::best) == key, field.role == FieldRole::note) << field.name;
    if constexpr (std::is_same_v<V, std::int64_t>) {  // what no word has room for is never kept
      other.*field.member = std::int64_t{1} << 40;
      EXPECT_EQ(cache.key(other, By::best).generation(), 0u) << field.name;
    }
  });
  EXPECT_NE(cache.key(problem, By::tflops), key);
  EXPECT_NE(cache.key(problem, By::best).generation(), 0u);
}

TEST(DecisionCache, KeyHoldsEveryFieldOfAProblemsIdentity) {
  const DecisionCache cache(4);
  const GemmProblem problem = make_gemm(10, 20, 30);
  const auto key = cache.key(problem, By::best);
  for_each_field<GemmProblem>([&](const auto& field) {
    GemmProblem other = problem;
    using V = std::remove_cvref_t<decltype(other.*field.member)>;
    if constexpr (std::is_same_v<V, bool>) {
      other.*field.member = !(other.*field.member);
    } else {
      other.*field.member = static_cast<V>(static_cast<int>(other.*field.member) + 2);
    }
    EXPECT_EQ(cache.key(other, By::best) == key, field.role == FieldRole::note) << field.name;
  });
  EXPECT_NE(cache.key(problem, By::latency), key);
  EXPECT_EQ(cache.key(problem, By::best), key);
}

TEST(DecisionCache, AGemmAndAConvolutionOfTheSameNumbersHaveTwoKeys) {
  const DecisionCache cache(4);
  GemmProblem gemm;
  ConvProblem conv;
  for_each_field<GemmProblem>([&](const auto& field) { gemm.*field.member = {}; });
  for_each_field<ConvProblem>([&](const auto& field) { conv.*field.member = {}; });
  EXPECT_NE(cache.key(gemm, By::best), cache.key(conv, By::best));
}

TEST(DecisionCache, ReplacesADecisionWhenFull) {
  DecisionCache cache(256);
  const auto key = [&](std::int64_t m) { return cache.key(make_gemm(m, 64, 64), By::best); };
  Choice found;
  for (int i = 0; i < 20'000; ++i) {
    cache.add(key(i), choice_of(i % 100));
    ASSERT_TRUE(cache.find(key(i), found)) << "a new decision is kept";
    ASSERT_EQ(found.time_us, choice_of(i % 100).time_us);
  }
  EXPECT_GE(cache.statistics().evictions, 20'000u - cache.places());
  std::size_t kept = 0;
  for (int i = 0; i < 20'000; ++i) kept += cache.find(key(i), found) ? 1 : 0;
  EXPECT_GE(kept, cache.places() * 9 / 10) << "memory stays in use";
}

TEST(DecisionCache, KeepsNoDecisionWhenTooManyConfigsWereKept) {
  DecisionCache cache;
  constexpr std::int32_t kProblems = 6000;
  const auto key = [&](std::int64_t m) { return cache.key(make_gemm(m, 64, 64), By::best); };
  for (std::int32_t i = 0; i < kProblems; ++i) cache.add(key(i), choice_of(i));
  Choice found;
  std::size_t kept = 0;
  for (std::int32_t i = 0; i < kProblems; ++i) {
    if (!cache.find(key(i), found)) continue;
    expect_same(found, choice_of(i));
    ++kept;
  }
  EXPECT_GE(kept, 3500u);
  EXPECT_LE(kept, 4096u);
  cache.add(key(kProblems), choice_of(0));
  EXPECT_TRUE(cache.find(key(kProblems), found)) << "decisions of kept configs are kept";
}

/// Problems whose sizes have few different bits, as networks ask them.
std::vector<GemmProblem> regular_problems(std::int64_t rows, std::int64_t columns, std::int64_t depths) {
  std::vector<GemmProblem> problems;
  for (std::int64_t m = 1; m <= rows; ++m) {
    for (std::int64_t n = 1; n <= columns; ++n) {
      for (std::int64_t k = 1; k <= depths; ++k) problems.push_back(make_gemm(m, 512 * n, 4096 * k));
    }
  }
  return problems;
}

/// How many problems are found after each was added once.
std::size_t kept(DecisionCache& cache, const std::vector<GemmProblem>& problems) {
  for (const auto& p : problems) cache.add(cache.key(p, By::best), choice_of(1));
  Choice found;
  return static_cast<std::size_t>(std::ranges::count_if(
      problems, [&](const GemmProblem& p) { return cache.find(cache.key(p, By::best), found); }));
}

TEST(DecisionCache, HoldsAllOf4096Problems) {
  DecisionCache cache;
  EXPECT_EQ(kept(cache, regular_problems(64, 8, 8)), 4096u);
  EXPECT_EQ(cache.statistics().evictions, 0u);
  EXPECT_EQ(cache.statistics().misses, 0u);
}

TEST(DecisionCache, LosesFewOf5120Problems) {
  DecisionCache cache;
  const auto problems = regular_problems(64, 10, 8);
  const std::size_t found = kept(cache, problems);
  ASSERT_EQ(problems.size(), 5120u);
  EXPECT_GE(found, 4967u) << "at most 3 % may miss";
}

TEST(DecisionCache, ForgottenDecisionsMakeRoom) {
  DecisionCache cache(512);
  const auto problems = regular_problems(8, 8, 4);  // half the places
  for (int round = 0; round < 20; ++round) {
    EXPECT_EQ(kept(cache, problems), problems.size());
    cache.clear();
  }
  EXPECT_EQ(cache.statistics().evictions, 0u);
}

TEST(DecisionCache, NeverKeepsASizeThatFitsNoKey) {
  DecisionCache cache(64);
  Choice found;
  for (std::int64_t GemmProblem::*size : {&GemmProblem::m, &GemmProblem::lda, &GemmProblem::split_k}) {
    for (const std::int64_t value : {std::int64_t{1} << 32, (std::int64_t{1} << 32) + 1, std::int64_t{-1}}) {
      GemmProblem problem = make_gemm(1, 1, 1);
      problem.*size = value;
      const auto key = cache.key(problem, By::best);
      cache.add(key, choice_of(1));
      EXPECT_FALSE(cache.find(key, found));
    }
  }
  GemmProblem largest = make_gemm(0xffffffff, 1, 1);
  cache.add(cache.key(largest, By::best), choice_of(1));
  EXPECT_TRUE(cache.find(cache.key(largest, By::best), found));
}

TEST(ThreadNumber, IsOfOneRunningThread) {
  constexpr std::size_t kThreads = kThreadNumbers + 8;
  for (int round = 0; round < 2; ++round) {  // those of the first round are free again
    std::array<std::atomic<int>, kThreadNumbers + 1> threads_of = {};
    std::barrier all_have_one(kThreads);
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&] {
        const std::size_t number = thread_number();
        ++threads_of.at(number);
        all_have_one.arrive_and_wait();
        EXPECT_EQ(thread_number(), number);
      });
    }
    for (auto& thread : threads) thread.join();
    int single = 0;
    for (std::size_t n = 0; n < kThreadNumbers; ++n) single += threads_of[n];
    for (std::size_t n = 0; n < kThreadNumbers; ++n) EXPECT_LE(threads_of[n], 1);
    EXPECT_GE(single, static_cast<int>(kThreadNumbers) - 1) << "all but the one of this test's own thread";
    EXPECT_EQ(threads_of[kThreadNumbers], static_cast<int>(kThreads) - single);
  }
}

TEST(WordsHash, EveryBitReachesEveryBit) {
  std::mt19937_64 rng(1);
  constexpr int kSamples = 256;
  for (std::size_t bit = 0; bit < 640; ++bit) {
    std::array<int, 64> flips = {};
    for (int i = 0; i < kSamples; ++i) {
      std::array<std::uint64_t, 10> words;
      for (auto& word : words) word = rng() % 3 == 0 ? rng() : rng() % 5000;  // sizes are small numbers
      const std::uint64_t before = words_hash(words);
      words[bit / 64] ^= std::uint64_t{1} << (bit % 64);
      const std::uint64_t changed = before ^ words_hash(words);
      for (std::size_t out = 0; out < 64; ++out) flips[out] += static_cast<int>((changed >> out) & 1U);
    }
    for (std::size_t out = 0; out < 64; ++out) {
      ASSERT_NEAR(flips[out], kSamples / 2, 56) << "bit " << bit << " of the words, bit " << out;  // 7 sigma
    }
  }
}

TEST(DecisionCache, ThreadsNeverSeeHalfADecision) {
  DecisionCache cache(8);  // few places: every one is overwritten all the time
  constexpr int kThreads = 8, kRounds = test::share_of(20'000), kProblems = 24;
  std::atomic<std::uint64_t> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 rng(static_cast<unsigned>(t));
      for (int i = 0; i < kRounds; ++i) {
        const auto number = static_cast<std::int32_t>(rng() % kProblems);
        const auto key = cache.key(make_gemm(number, number, number), By::best);
        Choice found;
        if (!cache.find(key, found)) {
          cache.add(key, choice_of(number));
        } else if (const Choice kept = choice_of(number); found.config != kept.config ||
                                                          found.time_us != kept.time_us ||
                                                          found.score != kept.score) {
          ++wrong;
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0u);
  const CacheStatistics statistics = cache.statistics();
  EXPECT_EQ(statistics.hits + statistics.misses, std::uint64_t{kThreads} * kRounds);
  EXPECT_GT(statistics.hits, 0u);
  EXPECT_GT(statistics.evictions, 0u);
}

}  // namespace
}  // namespace kscout
