#pragma once
/// \file
/// One sample of a timing: enough calls in a row for the clock.
///
///     const double us = batch_us([&] { launch.run(buffers, workspace); }, expected_us);   // of one call
#include <algorithm>
#include <cmath>

#include "measure/clock.h"

namespace kscout {

/// A batch on a CPU is at least this long: clock and call cost stay below 0.3 %.
inline constexpr double kBatchUs = 20;
inline constexpr double kMostCalls = 256;  ///< of one batch

/// Microseconds of one call, the mean of `calls`.
template <class Call>
double mean_us(const Call& call, double calls) {
  const std::int64_t begin = now_ns();
  for (int i = 0; i < static_cast<int>(calls); ++i) call();
  return static_cast<double>(now_ns() - begin) / 1e3 / calls;
}

/// How many calls make a batch that is at least so long; `expected_us`: about what a call takes.
inline double calls_of_batch(double batch_us, double expected_us) {
  return std::clamp(std::ceil(batch_us / std::max(expected_us, 1e-3)), 1.0, kMostCalls);
}

/// Microseconds of one call, the mean of a batch.
template <class Call>
double batch_us(const Call& call, double expected_us) {
  return mean_us(call, calls_of_batch(kBatchUs, expected_us));
}

}  // namespace kscout
