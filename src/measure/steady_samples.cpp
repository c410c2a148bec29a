#include "measure/steady_samples.h"

#include <algorithm>
#include <limits>

namespace kscout {

namespace {

constexpr std::int64_t kMostPatienceNs = 2'000'000'000;  // what calm moments may save up for waiting

}  // namespace

void SteadySamples::called(std::int64_t took_ns) noexcept {
  called_ns_ += took_ns;
  left_ns_ = std::min(left_ns_ + static_cast<std::int64_t>(patience_ * static_cast<double>(took_ns)),
                      kMostPatienceNs);
}

void SteadySamples::waited(std::int64_t took_ns) noexcept {
  waited_ns_ += took_ns;
  left_ns_ -= took_ns;
}

bool SteadySamples::wait_until_steady(Launch& launch) {
  const std::int64_t begin = now_ns(), deadline = begin + left_ns_;
  bool steady = steadiness_.steady(launch.probe_us());
  while (!steady && now_ns() < deadline) steady = steadiness_.steady(launch.probe_us());
  waited(now_ns() - begin);
  return steady;
}

TimedCalls SteadySamples::take(Launch& launch, const std::function<TimedCalls()>& batch, bool& disturbed) {
  TimedCalls fastest{.call_us = std::numeric_limits<double>::infinity()};
  for (;;) {
    const bool steady_before = wait_until_steady(launch);
    const TimedCalls now = batch();
    const auto took = static_cast<std::int64_t>(now.all_us * 1e3);
    if (now.call_us < fastest.call_us) fastest = now;
    const bool steady = steady_before && steadiness_.steady(launch.probe_us());
    if (steady || left_ns_ <= 0) {
      called(took);
      if (steady) return now;
      disturbed = true;
      return fastest;
    }
    waited(took);
  }
}

}  // namespace kscout
