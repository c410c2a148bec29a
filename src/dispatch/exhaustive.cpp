#include "dispatch/exhaustive.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "core/fail.h"
#include "dispatch/interleaved.h"
#include "measure/clock.h"
#include "measure/operands.h"
#include "measure/stopping.h"
#include "measure/verify.h"

namespace kscout {

namespace {

constexpr double kHopeless = 3, kRace = 1.5;  ///< times the best so far: given up after one sample, after two

/// Operands, reference and workspace of one problem.
class Arena {
 public:
  explicit Arena(const GemmProblem& problem) : problem_(problem) {
    operands_.make(problem, 1);
    reference_ = std::make_unique<GemmReference>(problem, operands_);
  }

  /// Ready and right, or null.
  std::unique_ptr<Launch> verified(const TimedCandidate& candidate) {
    try {
      auto launch = candidate.backend->prepare(problem_, candidate.config);
      workspace_.resize(launch->workspace_bytes());
      operands_.reset_c();
      launch->run(operands_.buffers(), workspace_.data());
      const bool right = reference_->check(operands_.c()).error <= 1 && operands_.damage().empty() &&
                         workspace_.damage().empty();
      if (!right) operands_.repair();
      return right ? std::move(launch) : nullptr;
    } catch (const Error&) {
      return nullptr;
    }
  }

  double call_us(Launch& launch) {
    const std::int64_t begin = now_ns();
    launch.run(operands_.buffers(), workspace_.data());
    return static_cast<double>(now_ns() - begin) / 1e3;
  }

  GemmOperands& operands() { return operands_; }

 private:
  GemmProblem problem_;
  GemmOperands operands_;
  std::unique_ptr<GemmReference> reference_;
  GuardedBuffer workspace_{3};
};

struct Contender {
  std::size_t index;
  double time_us;
};

/// First pass: the coarse time of each right candidate that stayed in the race.
std::vector<Contender> race(Arena& arena, std::span<const TimedCandidate> candidates,
                            const SearchBudget& budget) {
  std::vector<Contender> finished;
  double best_us = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const auto launch = arena.verified(candidates[i]);
    if (!launch) continue;
    Sampler sampler({.most = 11,
                     .budget_us = budget.coarse_us,
                     .best_us = best_us,
                     .hopeless = kHopeless,
                     .race = kRace});
    do {
      const double us = arena.call_us(*launch);
      sampler.add(us, us);
    } while (sampler.verdict() == Verdict::go_on);
    if (sampler.verdict() == Verdict::raced) continue;
    finished.push_back({i, sampler.summary().median});
    best_us = std::min(best_us, finished.back().time_us);
  }
  std::ranges::stable_sort(finished, {}, &Contender::time_us);
  return finished;
}

}  // namespace

std::optional<Fastest> fastest_config(const GemmProblem& problem, std::span<const TimedCandidate> candidates,
                                      const SearchBudget& budget) {
  for (const TimedCandidate& one : candidates) {
    if (&one.backend->memory() == &host_memory()) continue;
    fail(Errc::unsupported, "backend {}: an exhaustive search measures operands in the CPU's memory only",
         one.backend->name());
  }
  std::unique_ptr<Arena> arena;
  try {
    arena = std::make_unique<Arena>(problem);
  } catch (const Error& error) {
    if (error.code() == Errc::unsupported) return std::nullopt;
    throw;
  }
  auto contenders = race(*arena, candidates, budget);
  if (contenders.empty()) return std::nullopt;
  contenders.resize(std::min(contenders.size(), budget.contenders));

  std::vector<std::unique_ptr<Launch>> launches;
  std::size_t workspace_bytes = 0;
  for (const Contender& one : contenders) {
    launches.push_back(candidates[one.index].backend->prepare(problem, candidates[one.index].config));
    workspace_bytes = std::max(workspace_bytes, launches.back()->workspace_bytes());
  }
  GuardedBuffer workspace(3);
  workspace.resize(workspace_bytes);
  std::vector<std::function<void()>> calls;
  for (const auto& launch : launches) {
    calls.emplace_back([&one = *launch, &operands = arena->operands(), &workspace] {
      one.run(operands.buffers(), workspace.data());
    });
  }
  const auto summaries = time_interleaved(calls, budget.final_seconds);
  const auto best = std::ranges::min_element(summaries, {}, &SampleSummary::median);
  return Fastest{contenders[static_cast<std::size_t>(best - summaries.begin())].index, best->median};
}

}  // namespace kscout
