#pragma once
/// \file
/// First-use refinement: the configs with the best predictions, timed once on the caller's own problem.
///
///     const auto refined = fastest_on(backend, problem, contenders, buffers, {.seconds = 0.05});
///     if (refined) use(contenders[refined->index]);      // nothing: the budget did not tell, keep the first
///
/// **What it costs.** Once per problem: each contender is made ready and runs once untimed (on a GPU twice:
/// the first call loads a kernel). The first contender runs untimed once more, and so does each that took
/// over three times as long; what still does is left out. The others are timed in rounds of random order
/// (measure/rounds.h) until the budget ends or their medians have samples enough. A round starts only while
/// the longest one so far fits in what is left of the budget, so the total is at most the budget, the untimed
/// runs and one round.
///
/// **What it risks.** The first contender is what would have run anyway. Another is taken only when its
/// interval of the median (95 %) ends below the first one's begin: noise changes nothing, and the choice is
/// never slower than the first by more than that interval.
#include <cstddef>
#include <optional>
#include <span>

#include <kscout/backend.h>
#include <kscout/selector.h>

#include "dispatch/fastest.h"

namespace kscout {

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
