#include "tune/stages.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include <fmt/format.h>

#include "dataset/operations.h"
#include "op/operation.h"
#include "op/problem_sets.h"

namespace kscout {

namespace {

/// Of the budget, by size class. Large problems are what people wait for; small ones are cheap.
constexpr std::array<double, kSizeClasses> kShares = {0.2, 0.25, 0.3, 0.25};
/// A stage is worth its share when that pays for so many of its problems.
constexpr double kMinProblems = 5;
/// What a large problem costs (GuidedBy), in calls of its fastest config.
constexpr double kCallsPerProblem = 60;
constexpr double kShareOfPeak = 0.7, kUnknownPeakGflops = 100;

/// GFLOP of the largest problem of which a share of the budget pays for kMinProblems.
double max_gflop(Op op, const Device& device, double share_s) {
  const double peak = peak_fp32_gflops(device);
  const double rate = kShareOfPeak * (std::isfinite(peak) ? peak : kUnknownPeakGflops);
  return operation(op).tune_share * rate * share_s / (kMinProblems * kCallsPerProblem);
}

struct LargestProblem {
  double gflop, bytes;
};

/// The problems of each source that have not been measured.
std::vector<std::vector<Problem>> drawn_problems(Op op, const TuneRequest& request,
                                                 const LargestProblem& largest, double budget_s,
                                                 const std::unordered_set<Problem>& measured) {
  const double per_second = !request.on_gpu() ? 20 : is_direction(op) ? 3 : 15;
  const auto count =
      static_cast<std::size_t>(std::clamp(budget_s * per_second, 200.0, 4000.0)) + measured.size();
  auto sources = operation(op).tuning_problems({.op = op,
                                                .dtype = request.dtype,
                                                .layouts = request.layouts_of(op),
                                                .max_gflop = largest.gflop,
                                                .max_bytes = largest.bytes,
                                                .count = count,
                                                .seed = request.seed});
  for (auto& source : sources)
    std::erase_if(source, [&](const Problem& problem) { return measured.contains(problem); });
  return sources;
}

}  // namespace

std::vector<TuneStage> tune_stages(Op op, const TuneRequest& request, const Device& device, double budget_s,
                                   const std::unordered_set<Problem>& measured) {
  const double minutes = budget_s / 60;
  if (request.on_gpu()) {
    const LargestProblem limits{
        request.max_gflop > 0 ? request.max_gflop : std::clamp(100 * minutes, 100.0, 1000.0),
        std::clamp(2e8 * minutes, 1e8, 2e9)};
    auto sources = drawn_problems(op, request, limits, budget_s, measured);
    // Random convolutions teach little about those of networks, and each costs as much.
    if (is_direction(op)) sources.resize(1);
    std::vector<Problem> problems;
    for (const auto& source : sources) problems.insert(problems.end(), source.begin(), source.end());
    if (problems.empty()) return {};
    return {{fmt::format("up to {:.3g} GFLOP", limits.gflop), 1, merge_equal(problems)}};
  }
  const LargestProblem limits{
      request.max_gflop > 0 ? request.max_gflop : max_gflop(op, device, kShares.back() * budget_s),
      std::clamp(4e8 * minutes, 1e8, 2e9)};
  std::vector<TuneStage> stages(kShares.size());
  // Of each class equally many of each source, in random order: what networks compute is rare among the small
  // ones otherwise.
  const auto of_source = static_cast<std::size_t>(std::clamp(budget_s, 20.0, 2000.0));
  for (const auto& source : drawn_problems(op, request, limits, budget_s, measured)) {
    std::array<std::size_t, kSizeClasses> taken{};
    for (const std::uint32_t i : seeded_order(source.size(), request.seed)) {
      const auto size = static_cast<std::size_t>(size_class(source[i]));
      if (taken[size]++ < of_source) stages[size].problems.push_back(source[i]);
    }
  }
  for (TuneStage& stage : stages) stage.problems = merge_equal(stage.problems);
  double left = 0;
  for (std::size_t i = stages.size(); i-- > 0;) {
    if (stages[i].problems.empty()) continue;
    left += kShares[i];
    stages[i].share = kShares[i] / left;
    stages[i].name = fmt::format("{} GFLOP", word(static_cast<SizeClass>(i)));
  }
  std::erase_if(stages, [](const TuneStage& stage) { return stage.problems.empty(); });
  return stages;
}

std::vector<Problem> weightiest_of(const SweepPlan& plan, double budget_s) {
  std::vector<std::size_t> order(plan.problems.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](std::size_t i) {
    return plan.problems[i].weight() * expected_call_us(plan.problems[i], plan.device);
  });
  std::vector<Problem> kept;
  double cost_s = 0;
  for (const std::size_t i : order) {
    cost_s += estimate_seconds(plan, i);
    if (!kept.empty() && cost_s > budget_s) break;
    kept.push_back(plan.problems[i]);
  }
  return kept;
}

std::vector<Winner> winners_of(const std::vector<MeasurementTable>& tables) {
  std::vector<Winner> winners;
  for (const MeasurementTable& table : tables) {
    const auto rows = final_rows(table);
    for (std::size_t p = 0; p < rows.size(); ++p) {
      if (const auto best = oracle_of(rows[p]))
        winners.push_back({table.problems[p], table.configs[best->config]});
    }
  }
  return winners;
}

}  // namespace kscout
