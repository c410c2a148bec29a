#include "measure/problem_bench.h"

#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include <kscout/family.h>

#include "measure/clock.h"
#include "provider/native/native.h"

namespace kscout {
namespace {

constexpr double kCalmUs = 50, kDisturbedUs = 150;

/// A machine whose core has a neighbour for 2 ms of every 5 ms.
bool neighbour() { return now_ns() / 1'000'000 % 5 < 2; }

class ShakenLaunch : public Launch {
 public:
  explicit ShakenLaunch(const GemmProblem& problem) : bytes_(problem.m * problem.n * sizeof(float)) {}
  std::size_t workspace_bytes() const noexcept override { return 0; }
  void run(const GemmBuffers& buffers, void*, Stream) override {
    const double us = neighbour() ? kDisturbedUs : kCalmUs;
    for (const auto end = now_ns() + static_cast<std::int64_t>(us * 1e3); now_ns() < end;) {
    }
    std::memset(buffers.c, 0, bytes_);  // right for K = 0
  }
  double probe_us() override { return neighbour() ? 2.3 : 1; }

 private:
  std::size_t bytes_;
};

class ShakenBackend : public Backend {
 public:
  std::string_view name() const noexcept override { return "shaken"; }
  std::string_view provider() const noexcept override { return "native"; }
  Family family(const Signature&, std::string_view) override { return {}; }
  const Device& device() override { return device_; }
  std::string refusal(const GemmProblem&, const KernelConfig&) override { return {}; }
  std::unique_ptr<Launch> prepare(const GemmProblem& problem, const KernelConfig&) override {
    return std::make_unique<ShakenLaunch>(problem);
  }

 private:
  Device device_;
};

// The thread may also lose its time slice to another test, hence the room. Without probes a coarse time would
// be a calm one as often as the machine is calm, 60 %.
TEST(ProblemBench, TimesAreThoseOfTheMachineLeftAlone) {
  constexpr double kLimitUs = 1.6 * kCalmUs;
  ShakenBackend backend;
  ProblemBench bench({}, 1);
  bench.open(make_gemm(4, 4, 0));
  const Candidate candidate{&backend, KernelConfig(native_gemm_space)};
  int calm = 0;
  for (int i = 0; i < 40; ++i) {
    const Outcome outcome = bench.coarse(candidate, std::numeric_limits<double>::infinity());
    ASSERT_EQ(outcome.measured.status, Status::ok) << outcome.reason;
    calm += outcome.measured.time_us < kLimitUs;
  }
  EXPECT_GE(calm, 34);
  const std::vector<Candidate> both(2, candidate);
  std::size_t answers = 0;
  bench.contenders(both, [&](std::size_t, const Outcome& outcome) {
    EXPECT_LT(outcome.measured.time_us, kLimitUs);  // medians of six samples and more
    ++answers;
  });
  EXPECT_EQ(answers, 2u);
  EXPECT_GT(bench.spent().waits, 0);
}

TEST(ProblemBench, AMachineThatNeverRestsIsMeasuredAllTheSame) {
  class Restless final : public ShakenBackend {
    class Waiting final : public ShakenLaunch {
     public:
      using ShakenLaunch::ShakenLaunch;
      double probe_us() override { return ++probes_ < 40 ? 1 : 3; }

     private:
      int probes_ = 0;
    };
    std::unique_ptr<Launch> prepare(const GemmProblem& problem, const KernelConfig&) override {
      return std::make_unique<Waiting>(problem);
    }
  } backend;
  ProblemBench bench({.coarse_target = 0}, 1);
  bench.open(make_gemm(4, 4, 0));
  bool noisy = false;
  for (int i = 0; i < 12; ++i) {
    const Outcome outcome = bench.coarse({&backend, KernelConfig(native_gemm_space)}, 1e9);
    ASSERT_EQ(outcome.measured.status, Status::ok) << outcome.reason;
    noisy = noisy || outcome.measured.noisy;
  }
  EXPECT_TRUE(noisy);
}

}  // namespace
}  // namespace kscout
