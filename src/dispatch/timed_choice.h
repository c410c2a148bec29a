#pragma once
/// \file
/// Chooses among configs by timing them on one problem: all on own operands, or the best predicted on the
/// caller's.
#include <cstddef>
#include <limits>
#include <optional>
#include <span>

#include <kscout/backend.h>
#include <kscout/selector.h>

#include "measure/problem_bench.h"
#include "select/decision_db.h"

namespace kscout {

struct Fastest {
  std::size_t index = 0;                                      ///< of the fastest among those that were given
  double time_us = std::numeric_limits<double>::quiet_NaN();  ///< its median
  double next_us = std::numeric_limits<double>::quiet_NaN();  ///< the smallest median of the others
  std::size_t timed = 0;                                      ///< how many took part to the end
};

/// What a file of decisions keeps of it, as found now by this version of the library.
StoredDecision decision_of(const GemmProblem& problem, const KernelConfig& config, const Fastest& fastest,
                           Backend& on);

// ---- The fastest of many configs by measuring them on one problem, on operands of our own.
//
//     const auto best = fastest_config(problem, candidates);
//     if (best) candidates[best->index] ran in best->time_us

/// Every candidate runs once and is verified against float64; the right ones that may win
/// are timed in turn (both passes are those of a sweep, with a smaller budget for the rounds).
/// Candidates that refuse, fail or compute something wrong are left out; nothing when none is left, or when
/// the results of such a problem cannot be verified (epilogues, element types), and never an unverified
/// winner. A crash of a kernel is a crash of the caller: sweeps measure in worker processes, this does not.
/// Operands are in the CPU's memory: throws unsupported for a backend with memory of its own.
std::optional<Fastest> fastest_config(const GemmProblem& problem, std::span<const Candidate> candidates);

// ---- First-use refinement: the configs with the best predictions, timed once on the caller's own problem.
//
//     const auto refined = fastest_on(backend, problem, contenders, buffers, {.seconds = 0.05});
//     if (refined) use(contenders[refined->index]);      // nothing: the budget did not tell, keep the first
//
// **What it costs.** Once per problem: each contender is made ready and runs once untimed (on a GPU twice:
// the first call loads a kernel). The first contender runs untimed once more, and so does each that took
// over three times as long; what still does is left out. The others are timed in rounds of random order
// (measure/samples.h) until the budget ends or their medians have samples enough. A round starts only while
// the longest one so far fits in what is left of the budget, so the total is at most the budget, the untimed
// runs and one round.
//
// **What it risks.** The first contender is what would have run anyway. Another is taken only when its
// interval of the median (95 %) ends below the first one's begin: noise changes nothing, and the choice is
// never slower than the first by more than that interval.

struct RefineBudget {
  double seconds = 0.05;  ///< of timed rounds
};

/// `contenders`, the most promising first: the backend accepts them. A and B are the caller's; C is memory of
/// its own, so that the caller's C stays as it is. On a GPU the device's clock is read; the calls go into its
/// own queue and are waited for, so the caller's stream must not be capturing. Nothing when fewer than two
/// contenders can be made ready, or when the budget allows no three rounds. Throws device_failure.
std::optional<Fastest> fastest_on(Backend& backend, const GemmProblem& problem,
                                  std::span<const Choice> contenders, const GemmBuffers& buffers,
                                  const RefineBudget& budget);

}  // namespace kscout
