#pragma once
/// \file
/// Times several things in turn, each round in another order, and takes out what the machine's speed did
/// meanwhile: no clock, neighbour or slow phase favours one of them.
///
///     const auto summaries = time_in_rounds(launches.size(), {.budget_us = 5e4}, [&](std::size_t i) {
///       return std::optional(batch_us([&] { launches[i]->run(buffers, workspace); }, expected_us[i]));
///     });
///     summaries[2].median   // microseconds per call
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "measure/drift.h"

namespace kscout {

struct RoundsRule {
  std::size_t rounds = 24;  ///< samples of each; the more, the better drift and speed are told apart
  std::size_t least = 0;    ///< rounds that are run whatever they take
  /// Further rounds start only while the longest one so far fits in what is left.
  double budget_us = std::numeric_limits<double>::infinity();
  std::uint32_t seed = 1;  ///< of the orders
};

/// `sample` is given the position and tells microseconds; nothing from it (the call failed) takes that one
/// out, and its earlier samples no longer count. Summaries by position; count 0 for who is out, and for all
/// when the budget allows no round.
std::vector<SampleSummary> time_in_rounds(std::size_t count, const RoundsRule& rule,
                                          const std::function<std::optional<double>(std::size_t)>& sample);

}  // namespace kscout
