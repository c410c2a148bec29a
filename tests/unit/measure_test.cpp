#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include <kscout/error.h>

#include "measure/affinity.h"
#include "measure/elements.h"
#include "measure/guarded_buffer.h"
#include "measure/operands.h"
#include "measure/rounds.h"
#include "measure/samples.h"
#include "measure/steadiness.h"
#include "measure/stopping.h"
#include "measure/verify.h"

namespace kscout {
namespace {

TEST(Samples, MedianAndSpreadOfKnownNumbers) {
  const double odd[] = {5, 1, 3};
  EXPECT_EQ(summarise(odd).median, 3);
  EXPECT_DOUBLE_EQ(summarise(odd).spread, 2.0 / 3);
  const double even[] = {4, 1, 3, 100};
  EXPECT_EQ(summarise(even).median, 3.5);
  EXPECT_TRUE(std::isnan(summarise({}).median));
  EXPECT_EQ(summarise(std::span(odd).first(1)).relative_half_width(),
            std::numeric_limits<double>::infinity());
}

TEST(Samples, RanksAreThoseOfTheSignTest) {
  // Tables of the sign test, two-sided 5 %.
  EXPECT_EQ(lower_rank(5), 1u);
  EXPECT_EQ(lower_rank(6), 1u);
  EXPECT_EQ(lower_rank(9), 2u);
  EXPECT_EQ(lower_rank(15), 4u);
  EXPECT_EQ(lower_rank(25), 8u);
  EXPECT_EQ(lower_rank(100), 40u);
}

TEST(Samples, TheIntervalHoldsTheTrueMedianAsOftenAsItSays) {
  std::mt19937 random(7);
  std::lognormal_distribution<double> noise(0, 0.5);  // true median 1, long right tail
  int inside = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<double> samples(15);
    for (double& s : samples) s = noise(random);
    const SampleSummary summary = summarise(samples);
    inside += summary.low <= 1 && 1 <= summary.high;
  }
  EXPECT_GE(inside, 1900);
  EXPECT_LT(inside, 2000);
}

TEST(Steadiness, AProbeThatIsSlowerThanUsualIsADisturbance) {
  Steadiness steadiness;
  std::mt19937 random(3);
  std::uniform_real_distribution<double> alone(1.00, 1.03);
  for (int i = 0; i < 200; ++i) EXPECT_TRUE(steadiness.steady(alone(random)));
  EXPECT_FALSE(steadiness.steady(2.3));
  EXPECT_FALSE(steadiness.steady(1.3));
  EXPECT_TRUE(steadiness.steady(1.1));
  EXPECT_TRUE(steadiness.steady(0));  // nobody can tell
}

TEST(Steadiness, UsualIsWhatTheMachineWasAtItsBestNotAFewLuckyProbes) {
  Steadiness steadiness;
  for (int i = 0; i < 64; ++i) steadiness.steady(2.3);  // a neighbour from the start
  EXPECT_TRUE(steadiness.steady(2.3));
  for (int i = 0; i < 64; ++i) steadiness.steady(i % 8 == 0 ? 0.5 : 1.0);  // it left; one probe in eight errs
  EXPECT_TRUE(steadiness.steady(1.0));
  EXPECT_FALSE(steadiness.steady(2.3));
}

/// Feeds `samples` until the rule stops; returns how many it took.
std::pair<Verdict, std::size_t> feed(const StoppingRule& rule, const std::vector<double>& samples) {
  Sampler sampler(rule);
  for (const double sample : samples) {
    sampler.add(sample, sample);
    if (sampler.verdict() != Verdict::go_on) break;
  }
  return {sampler.verdict(), sampler.count()};
}

TEST(Stopping, QuietTimingsStopEarlyNoisyOnesGoOn) {
  const StoppingRule rule{.least = 3, .most = 9, .target = 0.05, .budget_us = 1e9};
  EXPECT_EQ(feed(rule, {10, 10.1, 9.9, 10, 10}), std::pair(Verdict::tight, std::size_t{3}));
  EXPECT_EQ(feed(rule, {10, 20, 5, 10, 30, 10, 8, 20, 40, 10}), std::pair(Verdict::spent, std::size_t{9}));
  // One disturbed sample among many is outvoted once there are enough of them.
  EXPECT_EQ(feed(rule, {10, 90, 10, 10, 10, 10, 10, 10, 10}), std::pair(Verdict::tight, std::size_t{9}));
}

TEST(Stopping, BudgetEndsAndFixedCountsHold) {
  EXPECT_EQ(feed({.least = 3, .budget_us = 15}, {10, 10, 10}), std::pair(Verdict::spent, std::size_t{2}));
  EXPECT_EQ(
      feed({.fixed = 4, .target = 0.05, .budget_us = 1, .best_us = 1, .hopeless = 2}, {10, 10, 10, 10, 10}),
      std::pair(Verdict::tight, std::size_t{4}));
}

TEST(Stopping, HopelessConfigsAreRacedOut) {
  const StoppingRule rule{.best_us = 10, .hopeless = 2, .race = 1.3};
  EXPECT_EQ(feed(rule, {25, 25, 25}), std::pair(Verdict::raced, std::size_t{1}));
  EXPECT_EQ(feed(rule, {15, 15, 15}), std::pair(Verdict::raced, std::size_t{2}));
  EXPECT_EQ(feed(rule, {15, 12, 15, 12}).first, Verdict::go_on) << "one fast sample keeps it in the race";
}

TEST(Stopping, AConfigThatWasFastOnceIsNotRacedOut) {
  const StoppingRule rule{.best_us = 10, .hopeless = 2, .race = 1.3};
  Sampler spoilt(rule), slow(rule);
  spoilt.seen(11);  // its warm-up
  spoilt.add(500, 500);
  EXPECT_EQ(spoilt.verdict(), Verdict::go_on);
  slow.seen(40);
  slow.add(500, 500);
  EXPECT_EQ(slow.verdict(), Verdict::raced);
}

/// Invented calls: each takes its mean, give or take 5 %, in a pattern of its own; a sample takes what its
/// call takes. 0: the call fails.
struct Invented {
  std::vector<double> means_us;
  std::vector<std::size_t> order = {};

  std::vector<TimedInRounds> time(const RoundsRule& rule) {
    return time_in_rounds(means_us.size(), rule, [this](std::size_t i) -> std::optional<TimedCalls> {
      order.push_back(i);
      if (means_us[i] == 0) return std::nullopt;
      const double us = means_us[i] * (0.95 + 0.05 * static_cast<double>((samples(i) + i) % 3));
      return TimedCalls{us, us};
    });
  }
  std::size_t samples(std::size_t of) const {
    return static_cast<std::size_t>(std::ranges::count(order, of));
  }
};

TEST(Rounds, CallsAreTakenInTurnAndEachGetsItsShare) {
  Invented calls{{10, 30, 20}};
  const auto timed = calls.time({.most = 50, .target = 0, .budget_us = 60 * 20, .rivals = false});
  for (std::size_t i = 0; i < calls.order.size(); ++i) ASSERT_EQ(calls.order[i], i % 3);
  EXPECT_NEAR(static_cast<double>(calls.samples(1)), 20, 2) << "the budget is for all together";
  for (std::size_t i = 0; i < timed.size(); ++i) {
    EXPECT_NEAR(timed[i].summary.median, calls.means_us[i], 0.05 * calls.means_us[i]);
    EXPECT_EQ(timed[i].verdict, Verdict::spent);
  }
}

TEST(Rounds, WhoCannotWinLeaves) {
  constexpr Hurdle kHurdles[] = {{2, 1.5}};
  Invented calls{{10, 10.2, 14, 16}};
  const auto timed = calls.time({.most = 20, .target = 0, .hurdles = kHurdles});
  EXPECT_EQ(timed[3].verdict, Verdict::raced);
  EXPECT_EQ(calls.samples(3), 2u) << "misses the hurdle";
  EXPECT_EQ(calls.samples(2), 6u) << "surely slower, as soon as six samples say so";
  EXPECT_EQ(calls.samples(0), 20u);
  EXPECT_EQ(calls.samples(1), 20u) << "cannot be told from the first";
}

TEST(Rounds, ATightMedianEndsItsTurns) {
  const RoundsRule rule{.most = 20, .target = 0.06};
  Invented calls{{10, 10}};
  EXPECT_EQ(calls.time(rule)[0].verdict, Verdict::tight);
  EXPECT_EQ(calls.samples(0), 6u);
}

TEST(Rounds, AStrictBudgetStartsNoRoundThatMayNotFit) {
  Invented calls{{100, 50}};
  const auto timed = calls.time({.target = 0, .budget_us = 700, .strict = true, .rivals = false});
  EXPECT_EQ(timed[0].summary.count, 4u) << "also below the least number of samples";
}

TEST(Rounds, WhatFailsIsOutAndItsTimeDoesNotCount) {
  Invented calls{{0, 10}};
  const auto timed = calls.time({.most = 8, .target = 0});
  EXPECT_EQ(timed[0].verdict, Verdict::go_on);
  EXPECT_EQ(calls.samples(0), 1u);
  EXPECT_EQ(calls.samples(1), 8u);
}

TEST(Affinity, RangesReadBack) {
  EXPECT_EQ(print_ranges({0, 1, 2, 5, 7, 8}), "0-2,5,7-8");
  EXPECT_EQ(parse_ranges("0-2,5,7-8"), (std::vector<int>{0, 1, 2, 5, 7, 8}));
  EXPECT_TRUE(parse_ranges("").empty());
  for (const auto* bad : {"a", "1-", "3-1", "1,", "1,1", "-1", "1 2"})
    EXPECT_THROW(parse_ranges(bad), Error) << bad;
}

TEST(Affinity, WorkersShareCpus) {
  EXPECT_EQ(share_cpus({0, 1, 2, 3, 4}, 2), (std::vector<std::vector<int>>{{0, 1}, {2, 3, 4}}));
  EXPECT_EQ(share_cpus({3}, 2), (std::vector<std::vector<int>>{{3}, {3}}));
}

TEST(GuardedBuffer, FindsWritesOutsideAndKeepsQuietInside) {
  for (const int stagger : {0, 1, 2}) {
    GuardedBuffer buffer(stagger);
    for (const std::size_t bytes : {0u, 1u, 100u, 5000u, 60u}) {
      buffer.resize(bytes);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64, 0u);
      buffer.poison();
      EXPECT_EQ(buffer.damage(), "");
      buffer.data()[bytes + 7] = std::byte{1};
      EXPECT_EQ(buffer.damage(), "7 bytes past its end");
      buffer.resize(bytes);
      buffer.data()[-4] = std::byte{1};
      EXPECT_EQ(buffer.damage(), "4 bytes before its start");
    }
  }
}

TEST(GuardedBufferDeathTest, ReadOnlyOperandsStopTheWriter) {
  GuardedBuffer buffer;
  buffer.resize(100);
  buffer.make_read_only();
  EXPECT_DEATH(buffer.data()[3] = std::byte{1}, "");
  buffer.resize(100);
  buffer.data()[3] = std::byte{1};
}

template <class E>
void expect_round_trip(std::initializer_list<double> values) {
  for (const double value : values) {
    typename E::stored stored{};
    E::store(&stored, 0, value);
    EXPECT_EQ(E::load(&stored, 0), value);
  }
}

TEST(Elements, ExactValuesReadBack) {
  expect_round_trip<Float16>({0, 1, -1, 0.5, 65504, 0x1p-24, 0x1p-14, 1 + 0x1p-10, -0.333251953125});
  expect_round_trip<BFloat16>({0, 1, -1, 0.5, 0x1p100, 1 + 0x1p-7});
  expect_round_trip<TensorFloat32>({0, 1, -1, 1 + 0x1p-10});
  std::uint16_t half = 0;
  Float16::store(&half, 0, 1 + 0x1p-11);  // a tie goes to the even neighbour
  EXPECT_EQ(Float16::load(&half, 0), 1);
  Float16::store(&half, 0, 2 - 0x1p-12);  // rounding carries into the exponent
  EXPECT_EQ(Float16::load(&half, 0), 2);
  Float16::store(&half, 0, 70000);
  EXPECT_TRUE(std::isinf(Float16::load(&half, 0)));
  BFloat16::store(&half, 0, 1 + 0x1p-8);
  EXPECT_EQ(BFloat16::load(&half, 0), 1);
}

/// The plainest GEMM there is, fp32 sums, in the order of k.
void plain_gemm(const GemmProblem& p, GemmOperands& operands) {
  const auto buffers = operands.buffers();
  const auto *a = static_cast<const float*>(buffers.a), *b = static_cast<const float*>(buffers.b);
  auto* c = static_cast<float*>(buffers.c);
  const MatrixView va = view_a(p), vb = view_b(p), vc = view_c(p);
  for (std::int64_t item = 0; item < p.batch; ++item) {
    for (std::int64_t i = 0; i < p.m; ++i) {
      for (std::int64_t j = 0; j < p.n; ++j) {
        float sum = 0;
        for (std::int64_t l = 0; l < p.k; ++l) sum += a[va.at(item, i, l)] * b[vb.at(item, l, j)];
        float& out = c[vc.at(item, i, j)];
        out = sum + (p.accumulate ? static_cast<float>(buffers.beta) * out : 0.0f);
      }
    }
  }
}

std::vector<GemmProblem> verified_problems() {
  std::vector<GemmProblem> problems;
  for (const char* text :
       {"gemm:1x1x1", "gemm:7x5x3", "gemm:0x5x3", "gemm:5x3x0", "gemm:33x17x9:fp32:crr:batch=3:lda=40:ldc=21",
        "gemm:20x20x20:fp32:ccr:accumulate=1", "gemm:130x90x120",
        "gemm:97x64x128:fp32:rrr:ldc=70:accumulate=1", "gemm:64x96x130:fp32:crr:batch=2:lda=66",
        "gemm:80x100x100:fp32:ccr:ldb=104", "gemm:1x2000x400", "gemm:16x16x4096", "gemm:5x9x70000"}) {
    problems.push_back(parse_problem(text));
  }
  return problems;
}

TEST(Verify, RightResultsPassWithRoom) {
  for (const auto& problem : verified_problems()) {
    GemmOperands operands;
    operands.make(problem, 1);
    const GemmReference reference(problem, operands);
    operands.reset_c();
    plain_gemm(problem, operands);
    const auto verdict = reference.check(operands.c());
    EXPECT_LT(verdict.error, 0.5) << print(problem) << ": " << verdict.where;
    EXPECT_EQ(operands.damage(), "") << print(problem);
  }
}

TEST(Verify, EverySingleWrongElementIsFound) {
  for (const auto& problem : verified_problems()) {
    // 0.01 is a product a*b; sums of 70000 of them are not rounded that finely.
    if (problem.m * problem.n * problem.k == 0 || problem.k > 10000) continue;
    GemmOperands operands;
    operands.make(problem, 1);
    const GemmReference reference(problem, operands);
    operands.reset_c();
    plain_gemm(problem, operands);
    auto* c = static_cast<float*>(operands.buffers().c);
    const MatrixView view = view_c(problem);
    for (std::int64_t item = 0; item < problem.batch; ++item) {
      for (std::int64_t i = 0; i < problem.m; i += 3) {
        for (std::int64_t j = 0; j < problem.n; j += 7) {
          float& element = c[view.at(item, i, j)];
          const float right = element;
          element = right + 0.01f;
          if ((i + j) % 5 == 0) {
            const auto verdict = reference.check(c);
            ASSERT_GT(verdict.error, 1) << print(problem) << " at " << i << "," << j;
            ASSERT_NE(verdict.where.find(fmt::format("{}", i)), std::string::npos) << verdict.where;
          }
          element = right;
        }
      }
    }
    c[view.at(problem.batch - 1, problem.m - 1, problem.n / 2)] = std::nanf("");
    EXPECT_EQ(reference.check(c).error, std::numeric_limits<double>::infinity());
  }
}

TEST(Verify, ResultsThatWereNeverWrittenAreWrong) {
  GemmOperands operands;
  const auto problem = parse_problem("gemm:300x50x100");
  operands.make(problem, 1);
  const GemmReference reference(problem, operands);
  operands.reset_c();
  EXPECT_GT(reference.check(operands.c()).error, 1);
}

TEST(Operands, GapsAreWatchedAndSeedsDecide) {
  const auto problem = parse_problem("gemm:8x8x8:fp32:rcr:ldc=12:lda=10");
  GemmOperands one, two;
  one.make(problem, 5);
  two.make(problem, 5);
  EXPECT_EQ(std::memcmp(one.a(), two.a(), 320), 0);
  EXPECT_TRUE(std::isnan(static_cast<const float*>(one.a())[9])) << "between lines";
  two.make(problem, 6);
  EXPECT_NE(std::memcmp(one.a(), two.a(), 320), 0);
  static_cast<float*>(one.buffers().c)[10] = 0;
  EXPECT_EQ(one.damage(), "C was written between its lines, 32 bytes from its start");
  EXPECT_THROW(two.make(parse_problem("gemm:8x8x8:int4"), 1), Error);
  EXPECT_THROW(two.make(make_gemm(1 << 24, 1 << 24, 1 << 10), 1), Error);
}

// The tolerance rests on it: sums of k products grow with the root of k only when A and B have nothing in
// common.
TEST(Operands, RowsAndColumnsAreUncorrelated) {
  for (const auto* text :
       {"gemm:16x16x4096", "gemm:16x16x4096:fp32:crr", "gemm:32x32x65536", "gemm:4096x16x4096:fp32:rrr"}) {
    const auto problem = parse_problem(text);
    GemmOperands operands;
    operands.make(problem, 3);
    const MatrixView a = view_a(problem), b = view_b(problem);
    const auto *pa = static_cast<const float*>(operands.a()), *pb = static_cast<const float*>(operands.b());
    double worst = 0, squares = 0;
    for (std::int64_t i = 0; i < 16; ++i) {
      const std::int64_t row = i * (problem.m / 16);
      for (std::int64_t j = 0; j < 16; ++j) {
        double sum = 0, norm_a = 0, norm_b = 0;
        for (std::int64_t l = 0; l < problem.k; ++l) {
          const double x = pa[a.at(0, row, l)], y = pb[b.at(0, l, j)];
          sum += x * y;
          norm_a += x * x;
          norm_b += y * y;
        }
        // A correlation, in its standard deviations.
        const double deviations =
            sum / std::sqrt(norm_a * norm_b) * std::sqrt(static_cast<double>(problem.k));
        worst = std::max(worst, std::abs(deviations));
        squares += deviations * deviations;
      }
    }
    EXPECT_LT(worst, 5) << text;
    EXPECT_LT(squares / 256, 1.5) << text;
  }
}

TEST(Operands, ValuesAreUniformWithMeanZero) {
  const auto problem = make_gemm(1000, 1, 1000);
  GemmOperands operands;
  operands.make(problem, 9);
  const std::span values(static_cast<const float*>(operands.a()), 1000000);
  double sum = 0, squares = 0;
  for (const float v : values) sum += v, squares += v * v;
  EXPECT_NEAR(sum / 1e6, 0, 0.003);
  EXPECT_NEAR(squares / 1e6, 1.0 / 3, 0.003);
}

}  // namespace
}  // namespace kscout
