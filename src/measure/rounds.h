#pragma once
/// \file
/// Times several things in turn (A B C A B C ...), so that a drifting clock or a slow phase of the machine
/// favours none.
///
///     const auto timed = time_in_rounds(launches.size(), {.budget_us = 5e4}, [&](std::size_t i) {
///       return std::optional(timed_batch([&] { launches[i]->run(buffers, workspace); }, expected_us[i]));
///     });
///     timed[2].summary.median   // microseconds per call
#include <cstddef>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "measure/stopping.h"
#include "measure/timed_calls.h"

namespace kscout {

/// Who has this many samples, the fastest of which is slower than `factor` times the fastest of all, is out.
struct Hurdle {
  std::size_t samples;
  double factor;
};

struct RoundsRule {
  std::size_t least = 6;  ///< samples before anything is believed; 6 = the fewest with a 95 % interval
  std::size_t most = 41;  ///< samples of one
  double target = 0.01;   ///< relative half width of the median's interval that is tight enough
  double budget_us = std::numeric_limits<double>::infinity();  ///< time for the samples of all together
  /// A round starts only when the one before fits in what is left of the budget, also before `least`.
  bool strict = false;
  /// Only the fastest is looked for: who is surely slower than another leaves, and who misses a hurdle.
  bool rivals = true;
  std::span<const Hurdle> hurdles = {};  ///< ascending by samples
};

struct TimedInRounds {
  SampleSummary summary;             ///< microseconds per call
  Verdict verdict = Verdict::go_on;  ///< why it left; go_on: its sample failed
};

/// One sample of each per round, until every median is tight or the budget ends. `sample` is given the
/// position; nothing from it (the call failed) takes that one out, and its time no longer counts.
std::vector<TimedInRounds> time_in_rounds(
    std::size_t count, const RoundsRule& rule,
    const std::function<std::optional<TimedCalls>(std::size_t)>& sample);

}  // namespace kscout
