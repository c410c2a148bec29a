#pragma once
/// \file
/// The fastest of many configs by measuring them on one problem, on operands of our own.
///
///     const auto best = fastest_config(problem, candidates, {});
///     if (best) candidates[best->index] ran in best->time_us
#include <optional>
#include <span>

#include <kscout/backend.h>

namespace kscout {

struct TimedCandidate {
  Backend* backend;
  KernelConfig config;
};

struct SearchBudget {
  double coarse_us = 2e3;       ///< sampling of one config in the first pass
  double final_seconds = 0.02;  ///< of one contender in the second
  std::size_t contenders = 4;
};

struct Fastest {
  std::size_t index;  ///< of the candidate
  double time_us;     ///< median of the interleaved pass
};

/// Every candidate runs once and is verified against float64; the right ones are timed until they cannot win
/// or their median is known coarsely; then the best `contenders` are timed interleaved. Candidates that
/// refuse, fail or compute something wrong are left out; nothing when none is left, or when the results of
/// such a problem cannot be verified (epilogues, element types), and never an unverified winner. A crash of a
/// kernel is a crash of the caller: sweeps measure in worker processes, this does not. Operands are in the
/// CPU's memory: throws unsupported for a backend with memory of its own.
std::optional<Fastest> fastest_config(const GemmProblem& problem, std::span<const TimedCandidate> candidates,
                                      const SearchBudget& budget);

}  // namespace kscout
