#pragma once
/// \file
/// Summarises timings: median, spread, how sure the median is, with the machine's drift taken out.
///
///     const SampleSummary s = summarise(samples);
///     if (s.relative_half_width() < 0.02) ...   // the median is known to 2 %
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace kscout {

/// Same unit as the samples.
struct SampleSummary {
  std::size_t count = 0;
  double median = std::numeric_limits<double>::quiet_NaN();
  double spread = std::numeric_limits<double>::quiet_NaN();  ///< median absolute deviation / median
  double low = -std::numeric_limits<double>::infinity();     ///< confidence interval of the median
  double high = std::numeric_limits<double>::infinity();

  /// Half the interval over the median; infinite below two samples.
  double relative_half_width() const noexcept;
};

/// The interval is the distribution-free one between two order statistics: with n samples, ranks r and
/// n + 1 - r enclose the median with probability 1 - 2 P(Binomial(n, 1/2) < r). r is the largest rank that
/// keeps 95 %; below 6 samples no rank does, and the interval is the whole range (75 % at 3, 94 % at 5).
/// Timings have long right tails, so nothing is assumed about their distribution. Cost: a sort.
SampleSummary summarise(std::span<const double> samples);

/// Rank (1 = smallest) of the interval's lower end for `count` samples at 95 %; at least 1.
std::size_t lower_rank(std::size_t count);

// ---- Contenders timed in interleaved rounds on a machine whose speed drifts: what each takes when the drift
// is taken out.
//
//     std::vector<ContenderSample> samples;
//     for (int round = 0; round < 24; ++round)
//       for (std::size_t contender : shuffled) samples.push_back({contender, time_us(contender)});
//     const std::vector<SampleSummary> summaries = without_drift(samples, contenders);
//
// A neighbour on the other hardware thread of a core, which a virtual machine cannot see, slows some
// instructions down for a while and nobody tells. Medians do not average that out: one contender's
// samples fall into more bad moments than another's. Samples taken shortly one after the other are hit
// alike, though, so that a common factor of neighbours in time can be told from the contenders' own speeds.

/// Samples on either side that tell how fast the machine was at one sample. Few follow fast changes, many
/// average out what single contenders suffer; 4 to 15 give the same choices.
inline constexpr std::size_t kDriftReach = 7;

/// One sample of one contender.
struct ContenderSample {
  std::size_t contender = 0;
  double time = 0;  ///< > 0, in any unit
};

/// Summaries per contender, in the samples' unit, at the machine's median speed. `samples` in the order in
/// which they were taken; contenders without a sample get count 0.
///
/// Method: log time = contender + moment + rest, fitted by alternating medians (J. W. Tukey, "Exploratory
/// Data Analysis", 1977: median polish), the moment's term by a running median over 2 kDriftReach + 1
/// samples. Cost: linear in the samples.
std::vector<SampleSummary> without_drift(std::span<const ContenderSample> samples, std::size_t contenders);

// ---- Times several things in turn, each round in another order, and takes out what the machine's speed did
// meanwhile: no clock, neighbour or slow phase favours one of them.
//
//     const auto summaries = time_in_rounds(launches.size(), {.budget_us = 5e4}, [&](std::size_t i) {
//       return std::optional(batch_us([&] { launches[i]->run(buffers, workspace); }, expected_us[i]));
//     });
//     summaries[2].median   // microseconds per call

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
