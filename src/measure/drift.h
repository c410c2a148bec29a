#pragma once
/// \file
/// Rivals timed in turns on a machine whose speed drifts: what each takes when the drift is taken out.
///
///     std::vector<TurnSample> samples;
///     for (int round = 0; round < 24; ++round)
///       for (std::size_t rival : shuffled) samples.push_back({rival, time_us(rival)});
///     const std::vector<SampleSummary> summaries = without_drift(samples, rivals);
///
/// A neighbour on the other hardware thread of a core, which a virtual machine cannot see, slows some
/// instructions down for a while and nobody tells. Medians do not average that out: one rival's
/// samples fall into more bad moments than another's. Samples taken shortly one after the other are hit
/// alike, though, so that a common factor of neighbours in time can be told from the rivals' own speeds.
#include <cstddef>
#include <span>
#include <vector>

#include "measure/samples.h"

namespace kscout {

/// Samples on either side that tell how fast the machine was at one sample. Few follow fast changes, many
/// average out what single rivals suffer; 4 to 15 give the same choices.
inline constexpr std::size_t kDriftReach = 7;

/// One sample of one rival.
struct TurnSample {
  std::size_t rival = 0;
  double time = 0;  ///< > 0, in any unit
};

/// Summaries per rival, in the samples' unit, at the machine's median speed. `samples` in the order in which
/// they were taken; rivals without a sample get count 0.
///
/// Method: log time = rival + moment + rest, fitted by alternating medians (J. W. Tukey, "Exploratory Data
/// Analysis", 1977: median polish), the moment's term by a running median over 2 kDriftReach + 1 samples.
/// Cost: linear in the samples.
std::vector<SampleSummary> without_drift(std::span<const TurnSample> samples, std::size_t rivals);

}  // namespace kscout
