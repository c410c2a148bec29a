#pragma once
/// \file
/// Times calls in turn (A B C A B C ...), so that a drifting clock favours none.
#include <functional>
#include <span>
#include <vector>

#include "measure/samples.h"

namespace kscout {

/// Microseconds per call, one summary per call: at least 5 rounds, at most 1000, until `seconds` per call
/// have passed.
std::vector<SampleSummary> time_interleaved(std::span<const std::function<void()>> calls, double seconds);

}  // namespace kscout
