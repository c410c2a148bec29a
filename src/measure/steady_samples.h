#pragma once
/// \file
/// Samples that are taken while the machine is steady: each between two probes that nothing slowed.
///
///     SteadySamples steady(1);                       // waits at most as long as the calls take
///     bool disturbed = false;
///     const TimedCalls batch = steady.take(launch, [&] { return timed_batch(call, expected_us); }, disturbed);
///
/// A launch that has no probe is taken at its word: its samples count at once.
#include <cstdint>
#include <functional>

#include <kscout/backend.h>

#include "measure/steadiness.h"
#include "measure/timed_calls.h"

namespace kscout {

class SteadySamples {
 public:
  /// Waits for a steady machine take at most `patience` times the time of the calls: each call pays in.
  explicit SteadySamples(double patience) noexcept : patience_(patience) {}

  /// A call outside the samples took so long.
  void called(std::int64_t took_ns) noexcept;

  /// A batch between two steady probes of the launch. When the machine gives no such moment before the
  /// patience ends, the fastest batch, and `disturbed` is set.
  TimedCalls take(Launch& launch, const std::function<TimedCalls()>& batch, bool& disturbed);

  std::int64_t waited_ns() const noexcept { return waited_ns_; }  ///< probes and samples thrown away
  std::int64_t called_ns() const noexcept { return called_ns_; }  ///< calls, those of thrown samples left out

 private:
  /// Probes until one is steady; false when the patience ends first.
  bool wait_until_steady(Launch& launch);
  void waited(std::int64_t took_ns) noexcept;

  double patience_;
  Steadiness steadiness_;
  std::int64_t left_ns_ = 0;  ///< what may still be spent on waiting
  std::int64_t waited_ns_ = 0, called_ns_ = 0;
};

}  // namespace kscout
