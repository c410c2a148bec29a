#pragma once
/// \file
/// Chooses among configs by timing them on one problem: all of them on generated operands, or those with the
/// best predictions on the caller's operands.
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <kscout/backend.h>
#include <kscout/selector.h>

#include "measure/problem_bench.h"
#include "select/decision_db.h"

namespace kscout {

struct Fastest {
  std::size_t index = 0;  ///< position of the fastest among the given ones
  double time_us = std::numeric_limits<double>::quiet_NaN();  ///< its median
  double next_us = std::numeric_limits<double>::quiet_NaN();  ///< the smallest median of the others
  std::size_t timed = 0;  ///< number of configs that were timed to the end
  /// Positions of the configs that have a median, and the medians; the fastest is one of them.
  std::vector<std::pair<std::size_t, double>> times_us = {};
};

/// The decision to store, with the current time and the version of this library.
StoredDecision decision_of(ProblemRef problem, const KernelConfig& config, const Fastest& fastest,
                           Backend& on);

/// The time to store of one config, the fastest or not.
StoredTiming timing_of(ProblemRef problem, std::string config_name, double time_us, Backend& on);

// ---- Finds the fastest of many configs by measuring them on one problem, with generated operands.
//
//     const auto best = fastest_config(problem, candidates);
//     if (best) candidates[best->index] ran in best->time_us

/// Runs every candidate once and verifies it against float64; then times, in interleaved rounds, the
/// candidates that compute a right result and may be the fastest. Both passes are those of a sweep, with a
/// smaller budget for the rounds. Candidates that refuse, fail or compute a wrong result are left out.
/// Returns nothing when none is left or when results of such a problem cannot be verified (4-bit types);
/// never returns an unverified config. A kernel that crashes also crashes the caller, because kernels
/// run in this process; a sweep uses worker processes. Operands are in the CPU's memory: throws unsupported
/// for a backend with memory of its own.
std::optional<Fastest> fastest_config(ProblemRef problem, std::span<const Candidate> candidates);

// ---- Refines a choice at first use: times the configs with the best predictions once on the caller's own
// problem.
//
//     const auto refined = fastest_on(backend, problem, contenders, buffers, {.seconds = 0.05});
//     if (refined) use(contenders[refined->index]);      // nothing: not enough budget to decide, keep the first
//
// **Cost.** Once per problem: each contender is prepared and runs once untimed (on a GPU twice, because the
// first call loads a kernel). The first contender runs untimed once more, and so does each contender that
// took over three times as long as the first. Contenders that still take over three times as long are left
// out. The others are timed in rounds of random order (measure/samples.h) until the budget ends or their
// medians have enough samples. A round starts only while the longest round so far fits in the remaining
// budget, so the total is at most the budget, the untimed runs and one round.
//
// **Risk.** The first contender would have run anyway. Another one replaces it only when the other's 95 %
// interval of the median ends below the start of the first one's interval. Noise therefore changes nothing,
// and the choice is never slower than the first contender by more than that interval.

struct RefineBudget {
  double seconds = 0.05;  ///< time for the timed rounds
};

/// `contenders`: accepted by the backend, best predicted first. A and B are the caller's; C is separate
/// memory, so that the caller's C does not change. On a GPU the device's clock is used; the calls go to the
/// default stream and are waited for, so the caller's stream must not be capturing. Returns nothing when
/// fewer than two contenders can be prepared, or when the budget covers fewer than three rounds. Throws
/// device_failure.
std::optional<Fastest> fastest_on(Backend& backend, ProblemRef problem, std::span<const Choice> contenders,
                                  const Buffers& buffers, const RefineBudget& budget);

}  // namespace kscout
