#pragma once
/// \file
/// The fastest of many configs by measuring them on one problem, on operands of our own.
///
///     const auto best = fastest_config(problem, candidates);
///     if (best) candidates[best->index] ran in best->time_us
#include <cstddef>
#include <optional>
#include <span>

#include "dispatch/fastest.h"
#include "measure/problem_bench.h"

namespace kscout {

/// Every candidate runs once and is verified against float64; the right ones that may win
/// are timed in turn (both passes are those of a sweep, with a smaller budget for the rounds).
/// Candidates that refuse, fail or compute something wrong are left out; nothing when none is left, or when
/// the results of such a problem cannot be verified (epilogues, element types), and never an unverified
/// winner. A crash of a kernel is a crash of the caller: sweeps measure in worker processes, this does not.
/// Operands are in the CPU's memory: throws unsupported for a backend with memory of its own.
std::optional<Fastest> fastest_config(const GemmProblem& problem, std::span<const Candidate> candidates);

}  // namespace kscout
