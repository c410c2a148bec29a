#include "dispatch/exhaustive.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/fail.h"

namespace kscout {

namespace {

/// A sweep's protocol for somebody who waits for the answer.
constexpr Protocol kSearch{.hopeless = 3, .contenders = 16, .rounds = 12, .rounds_budget_us = 8e4};

/// The instruments that all candidates share.
Instruments& instruments_of(std::span<const Candidate> candidates) {
  Instruments& shared = candidates.front().backend->instruments();
  for (const Candidate& one : candidates) {
    if (&one.backend->instruments() == &shared) continue;
    fail(Errc::unsupported,
         "backends {} and {}: an exhaustive search measures operands in one device's memory; register one",
         candidates.front().backend->name(), one.backend->name());
  }
  return shared;
}

Protocol protocol_for(const Instruments& device) {
  Protocol protocol = kSearch;
  if (&device != &host_instruments()) protocol.slack_us = 0;  // a GPU's clock loses no time slices
  return protocol;
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

/// First pass: positions of the right candidates that may be the fastest.
std::vector<std::size_t> promising(ProblemBench& bench, const Protocol& protocol,
                                   std::span<const Candidate> candidates) {
  std::vector<double> times_us;
  double best_us = std::numeric_limits<double>::infinity();
  for (const Candidate& candidate : candidates) {
    const Measurement measured = bench.coarse(candidate, best_us).measured;
    const bool right = measured.status == Status::ok || measured.status == Status::raced;
    times_us.push_back(right ? measured.time_us : std::numeric_limits<double>::infinity());
    best_us = std::min(best_us, times_us.back());
  }
  std::vector<std::size_t> left;
  for (std::size_t i = 0; i < times_us.size(); ++i) {
    if (std::isfinite(times_us[i]) && times_us[i] <= hopeless_us(protocol, best_us)) left.push_back(i);
  }
  return left;
}

}  // namespace

std::optional<Fastest> fastest_config(const GemmProblem& problem, std::span<const Candidate> candidates) {
  if (candidates.empty()) return std::nullopt;
  Instruments& device = instruments_of(candidates);
  const Protocol protocol = protocol_for(device);
  ProblemBench bench(protocol, 1, device);
  if (!can_open(bench, problem)) return std::nullopt;
  const auto left = promising(bench, protocol, candidates);
  std::vector<Candidate> contenders;
  for (const std::size_t i : left) contenders.push_back(candidates[i]);

  Fastest fastest;
  bench.contenders(contenders, [&](std::size_t i, const Outcome& outcome) {
    const Status status = outcome.measured.status;
    const double time_us = outcome.measured.time_us;
    if (status != Status::ok && status != Status::raced) return;
    ++fastest.timed;
    if (status == Status::ok && !(time_us >= fastest.time_us)) {  // also the first one
      fastest.next_us = std::fmin(fastest.next_us, fastest.time_us);
      fastest.time_us = time_us;
      fastest.index = left[i];
    } else {
      fastest.next_us = std::fmin(fastest.next_us, time_us);
    }
  });
  if (std::isnan(fastest.time_us)) return std::nullopt;
  return fastest;
}

}  // namespace kscout
