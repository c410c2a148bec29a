#pragma once
/// \file
/// One sample of a timing: enough calls in a row for the clock.
///
///     const TimedCalls batch = timed_batch([&] { launch.run(buffers, workspace); }, expected_us);
///     sampler.add(batch.call_us, batch.all_us);
#include <algorithm>
#include <cmath>

#include "measure/clock.h"

namespace kscout {

struct TimedCalls {
  double call_us = 0;  ///< mean of its calls
  double all_us = 0;   ///< what the sample took altogether
};

inline constexpr double kBatchUs =
    20;  ///< a batch on a CPU is at least this long: clock and call cost stay below 0.3 %
inline constexpr double kMostCalls = 256;  ///< of one batch

template <class Call>
TimedCalls timed_calls(const Call& call, double calls) {
  const std::int64_t begin = now_ns();
  for (int i = 0; i < static_cast<int>(calls); ++i) call();
  const double all_us = static_cast<double>(now_ns() - begin) / 1e3;
  return {all_us / calls, all_us};
}

/// How many calls make a batch that is at least so long; `expected_us`: about what a call takes.
inline double calls_of_batch(double batch_us, double expected_us) {
  return std::clamp(std::ceil(batch_us / std::max(expected_us, 1e-3)), 1.0, kMostCalls);
}

template <class Call>
TimedCalls timed_batch(const Call& call, double expected_us) {
  return timed_calls(call, calls_of_batch(kBatchUs, expected_us));
}

}  // namespace kscout
