#include "dispatch/exhaustive.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/fail.h"

namespace kscout {

namespace {

/// A sweep's protocol for somebody who waits for the answer.
constexpr Protocol kSearch{
    .patience = 1, .coarse_budget_us = 2e3, .hopeless = 3, .contenders = 4, .tight_budget_us = 8e4};

struct Finished {
  std::size_t index;
  double time_us;
};

void refuse_other_memory(std::span<const Candidate> candidates) {
  for (const Candidate& one : candidates) {
    if (&one.backend->memory() == &host_memory()) continue;
    fail(Errc::unsupported, "backend {}: an exhaustive search measures operands in the CPU's memory only",
         one.backend->name());
  }
}

/// Whether its results can be verified here.
bool can_open(ProblemBench& bench, const GemmProblem& problem) {
  try {
    bench.open(problem);
    return true;
  } catch (const Error& error) {
    if (error.code() != Errc::unsupported) throw;
    return false;
  }
}

/// First pass: the coarse time of each right candidate that stayed in the race, fastest first.
std::vector<Finished> race(ProblemBench& bench, std::span<const Candidate> candidates) {
  std::vector<Finished> finished;
  double best_us = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Measurement measured = bench.coarse(candidates[i], best_us).measured;
    if (measured.status != Status::ok) continue;
    finished.push_back({i, measured.time_us});
    best_us = std::min(best_us, measured.time_us);
  }
  std::ranges::stable_sort(finished, {}, &Finished::time_us);
  return finished;
}

}  // namespace

std::optional<Fastest> fastest_config(const GemmProblem& problem, std::span<const Candidate> candidates) {
  refuse_other_memory(candidates);
  ProblemBench bench(kSearch, 1);
  if (!can_open(bench, problem)) return std::nullopt;
  auto finished = race(bench, candidates);
  finished.resize(std::min(finished.size(), static_cast<std::size_t>(kSearch.contenders)));
  std::vector<Candidate> contenders;
  for (const Finished& one : finished) contenders.push_back(candidates[one.index]);

  Fastest fastest;
  bench.contenders(contenders, [&](std::size_t i, const Outcome& outcome) {
    const Status status = outcome.measured.status;
    const double time_us = outcome.measured.time_us;
    if (status != Status::ok && status != Status::raced) return;
    ++fastest.timed;
    if (status == Status::ok && !(time_us >= fastest.time_us)) {  // also the first one
      fastest.next_us = std::fmin(fastest.next_us, fastest.time_us);
      fastest.time_us = time_us;
      fastest.index = finished[i].index;
    } else {
      fastest.next_us = std::fmin(fastest.next_us, time_us);
    }
  });
  if (std::isnan(fastest.time_us)) return std::nullopt;
  return fastest;
}

}  // namespace kscout
