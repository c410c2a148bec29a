#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include <kscout/error.h>

#include "instruments/elements.h"
#include "measure/samples.h"
#include "measure/timing.h"
#include "op/gemm/gemm_reference.h"
#include "op/gemm/gemm_views.h"
#include "op/operands.h"

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

/// Rounds over 12 contenders that take 10, 11, ... 21 us, on a machine that is `slower` times slower for 17
/// of every 34 samples; 2 % of noise.
std::vector<ContenderSample> drifting_rounds(int rounds, double slower) {
  std::vector<ContenderSample> samples;
  for (int i = 0; i < 12 * rounds; ++i) {
    const std::size_t contender = static_cast<std::size_t>(i % 12 + 7 * (i / 12)) % 12;
    const double noise = 1 + 0.02 * std::sin(1.7 * i);
    samples.push_back(
        {contender, (10 + static_cast<double>(contender)) * noise * (i % 34 < 17 ? slower : 1)});
  }
  return samples;
}

TEST(Drift, RatiosOfContendersAreThoseOfACalmMachine) {
  const auto samples = drifting_rounds(11, 2.3);
  const auto summaries = without_drift(samples, 12);
  std::vector<std::vector<double>> plain(12);
  for (const ContenderSample& sample : samples) plain[sample.contender].push_back(sample.time);
  double worst_plain = 0;  // of ratios that plain medians would tell
  for (std::size_t contender = 0; contender < 12; ++contender) {
    const double expected = (10 + static_cast<double>(contender)) / 10;
    EXPECT_EQ(summaries[contender].count, 11u);
    EXPECT_NEAR(summaries[contender].median / summaries[0].median / expected, 1, 0.06) << contender;
    EXPECT_LT(summaries[contender].spread, 0.05);
    worst_plain =
        std::max(worst_plain,
                 std::abs(summarise(plain[contender]).median / summarise(plain[0]).median / expected - 1));
  }
  EXPECT_GT(worst_plain, 0.2) << "plain medians must be wrong here, or this test shows nothing";
}

TEST(Drift, ACalmMachineKeepsItsTimes) {
  const auto summaries = without_drift(drifting_rounds(20, 1), 13);
  for (std::size_t contender = 0; contender < 12; ++contender)
    EXPECT_NEAR(summaries[contender].median, 10 + static_cast<double>(contender),
                0.03 * summaries[contender].median);
  EXPECT_EQ(summaries[12].count, 0u);
  EXPECT_TRUE(std::isnan(summaries[12].median));
  EXPECT_TRUE(without_drift({}, 0).empty());
}

TEST(Drift, OneContenderAloneKeepsItsMedian) {
  const ContenderSample one[] = {{0, 3.0}};
  EXPECT_NEAR(without_drift(one, 1)[0].median, 3, 1e-12);
}

/// Invented calls: each takes its mean, give or take 5 %, in a pattern of its own, and really so long. 0: it
/// fails.
struct Invented {
  std::vector<double> means_us;
  std::vector<std::size_t> order = {};

  std::vector<SampleSummary> time(const RoundsRule& rule) {
    return time_in_rounds(means_us.size(), rule, [this](std::size_t i) -> std::optional<double> {
      order.push_back(i);
      if (means_us[i] == 0) return std::nullopt;
      const double us = means_us[i] * (0.95 + 0.05 * static_cast<double>((samples(i) + i) % 3));
      for (const auto end = now_ns() + static_cast<std::int64_t>(us * 1e3); now_ns() < end;) {
      }
      return us;
    });
  }
  std::size_t samples(std::size_t of) const {
    return static_cast<std::size_t>(std::ranges::count(order, of));
  }
};

TEST(Rounds, EveryRoundTakesEachOnceInAnotherOrder) {
  Invented calls{{10, 30, 20, 40}};
  const auto timed = calls.time({.rounds = 12});
  ASSERT_EQ(calls.order.size(), 48u);
  std::set<std::vector<std::size_t>> orders;
  for (std::size_t round = 0; round < 12; ++round) {
    const auto begin = calls.order.begin() + static_cast<std::ptrdiff_t>(4 * round);
    std::vector<std::size_t> order(begin, begin + 4);
    orders.insert(order);
    std::ranges::sort(order);
    EXPECT_EQ(order, (std::vector<std::size_t>{0, 1, 2, 3}));
  }
  EXPECT_GT(orders.size(), 4u);
  for (std::size_t i = 0; i < timed.size(); ++i) {
    EXPECT_EQ(timed[i].count, 12u);
    EXPECT_NEAR(timed[i].median, calls.means_us[i], 0.06 * calls.means_us[i]);
  }
}

TEST(Rounds, TheBudgetStartsNoRoundThatMayNotFit) {
  Invented calls{{300, 200}};
  const auto timed = calls.time({.rounds = 1000, .budget_us = 5000});
  EXPECT_GE(timed[0].count, 1u);
  EXPECT_LE(timed[0].count, 10u);
  EXPECT_EQ(calls.time({.rounds = 1000, .least = 12, .budget_us = 1})[0].count, 12u);
}

TEST(Rounds, WhatFailsIsOutAndItsSamplesDoNotCount) {
  Invented calls{{0, 10}};
  const auto timed = calls.time({.rounds = 8});
  EXPECT_EQ(timed[0].count, 0u);
  EXPECT_EQ(calls.samples(0), 1u);
  EXPECT_EQ(timed[1].count, 8u);
}

TEST(Affinity, RangesReadBack) {
  EXPECT_EQ(print_ranges({0, 1, 2, 5, 7, 8}), "0-2,5,7-8");
  EXPECT_EQ(parse_ranges("0-2,5,7-8", 9), (std::vector<int>{0, 1, 2, 5, 7, 8}));
  EXPECT_TRUE(parse_ranges("", 9).empty());
  for (const auto* bad : {"a", "1-", "3-1", "1,", "1,1", "-1", "1 2", "9", "3-9", "0-2147483647"})
    EXPECT_THROW(parse_ranges(bad, 9), Error) << bad;
}

TEST(Affinity, WorkersShareCpus) {
  EXPECT_EQ(share_cpus({0, 1, 2, 3, 4}, 2), (std::vector<std::vector<int>>{{0, 1}, {2, 3}}));
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
  const auto buffers = GemmBuffers::of(operands.buffers());
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

TEST(Verify, SmallProductsAreRoundedToTheStepsOfTheType) {
  const GemmProblem problem = make_gemm(256, 64, 1, DType::fp16);
  GemmOperands operands;
  operands.make(problem, 1);
  const GemmReference reference(problem, operands);
  operands.reset_c();
  for (std::int64_t i = 0; i < problem.m; ++i) {
    for (std::int64_t j = 0; j < problem.n; ++j) {
      Float16::store(GemmBuffers::of(operands.buffers()).c, i * problem.n + j,
                     Float16::load(operands.a(), i) * Float16::load(operands.b(), j));
    }
  }
  const Verification verdict = reference.check(operands.c());
  EXPECT_LE(verdict.error, 1) << verdict.where;
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
    auto* c = static_cast<float*>(GemmBuffers::of(operands.buffers()).c);
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
  static_cast<float*>(GemmBuffers::of(one.buffers()).c)[10] = 0;
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
