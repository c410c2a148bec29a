#include "measure/problem_bench.h"

#include <algorithm>
#include <cstring>

#include <gtest/gtest.h>

#include <kscout/family.h>

#include "measure/clock.h"
#include "provider/native/native.h"

namespace kscout {
namespace {

/// A machine whose core has a neighbour, which makes everything three times slower, for 2 ms of every 5 ms.
bool neighbour() { return now_ns() / 1'000'000 % 5 < 2; }

/// Takes as many microseconds as the config's first axis says, on that machine.
class ShakenLaunch final : public Launch {
 public:
  ShakenLaunch(const GemmProblem& problem, double calm_us)
      : bytes_(static_cast<std::size_t>(problem.m * problem.n) * sizeof(float)), calm_us_(calm_us) {}
  std::size_t workspace_bytes() const noexcept override { return 0; }
  void run(const GemmBuffers& buffers, void*, Stream) override {
    const double us = neighbour() ? 3 * calm_us_ : calm_us_;
    for (const auto end = now_ns() + static_cast<std::int64_t>(us * 1e3); now_ns() < end;) {
    }
    std::memset(buffers.c, 0, bytes_);  // right for K = 0
  }

 private:
  std::size_t bytes_;
  double calm_us_;
};

class ShakenBackend final : public Backend {
 public:
  std::string_view name() const noexcept override { return "shaken"; }
  std::string_view provider() const noexcept override { return "native"; }
  Family family(const Signature&, std::string_view) override { return {}; }
  const Device& device() override { return device_; }
  std::string refusal(const GemmProblem&, const KernelConfig&) override { return {}; }
  std::unique_ptr<Launch> prepare(const GemmProblem& problem, const KernelConfig& config) override {
    return std::make_unique<ShakenLaunch>(problem, config[std::size_t{0}]);
  }

 private:
  Device device_;
};

/// Configs that take so many microseconds each.
std::vector<Candidate> taking_us(Backend& backend, std::initializer_list<std::int32_t> calm) {
  std::vector<Candidate> candidates;
  for (const std::int32_t us : calm) {
    candidates.push_back({&backend, KernelConfig(native_gemm_space)});
    candidates.back().config[std::size_t{0}] = us;
  }
  return candidates;
}

std::vector<Measurement> second_pass(ProblemBench& bench, std::span<const Candidate> configs) {
  std::vector<Measurement> rows(configs.size());
  bench.contenders(configs, [&](std::size_t i, const Outcome& outcome) {
    EXPECT_TRUE(outcome.reason.empty()) << outcome.reason;
    rows[i] = outcome.measured;
  });
  return rows;
}

// The thread may also lose its time slices to other programs: the fastest is told from one that is 1.5 times
// slower, with a neighbour that costs 3 times.
TEST(ProblemBench, RoundsTellTheFastestBesideANeighbour) {
  ShakenBackend backend;
  ProblemBench bench({}, 1);
  bench.open(make_gemm(4, 4, 0));
  const auto configs = taking_us(backend, {90, 60, 40, 65, 300});
  const auto rows = second_pass(bench, configs);
  for (const std::size_t slower : {0, 1, 3, 4}) EXPECT_LT(rows[2].time_us, rows[slower].time_us);
  EXPECT_EQ(rows[2].status, Status::ok);
  EXPECT_EQ(rows[2].repeats, Protocol{}.rounds);
  EXPECT_EQ(rows[4].status, Status::raced) << "7.5 times slower in each look, or 2.5 times at the luckiest";
  EXPECT_GT(rows[4].time_us, 250);
}

TEST(ProblemBench, TheBudgetDecidesHowManyContend) {
  ShakenBackend backend;
  ProblemBench bench({.rounds = 10, .rounds_budget_us = 1}, 1);
  bench.open(make_gemm(4, 4, 0));
  const auto configs = taking_us(backend, {20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20});
  const auto rows = second_pass(bench, configs);
  EXPECT_EQ(std::ranges::count(rows, Status::ok, &Measurement::status), 12) << "the least that contend";
  EXPECT_EQ(std::ranges::count(rows, Status::raced, &Measurement::status), 4);
  for (const Measurement& row : rows) EXPECT_EQ(row.repeats, row.status == Status::ok ? 8 : 3);
}

TEST(ProblemBench, FixedRepeatsAreTakenAsTheyAre) {
  ShakenBackend backend;
  ProblemBench bench({.repeat = 5}, 1);
  bench.open(make_gemm(4, 4, 0));
  const Outcome outcome = bench.coarse(taking_us(backend, {50})[0], 1e-3);
  EXPECT_EQ(outcome.measured.status, Status::ok) << "no races";
  EXPECT_EQ(outcome.measured.repeats, 5);
}

}  // namespace
}  // namespace kscout
