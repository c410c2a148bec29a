#pragma once
/// \file
/// Summarises timings: median, spread and confidence interval, corrected for the machine's drift.
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

/// Summary in the unit of the samples.
struct SampleSummary {
  std::size_t count = 0;
  double median = std::numeric_limits<double>::quiet_NaN();
  double spread = std::numeric_limits<double>::quiet_NaN();  ///< median absolute deviation / median
  double low = -std::numeric_limits<double>::infinity();     ///< confidence interval of the median
  double high = std::numeric_limits<double>::infinity();

  /// Half the interval over the median; infinite for fewer than two samples.
  double relative_half_width() const noexcept;
};

/// Computes the distribution-free confidence interval between two order statistics: with n samples, ranks r
/// and n + 1 - r enclose the median with probability 1 - 2 P(Binomial(n, 1/2) < r). r is the largest rank
/// that keeps 95 %. For fewer than 6 samples there is no such rank, and the interval is the whole range (75 %
/// for 3, 94 % for 5). The method assumes nothing about the distribution, because timings have long right
/// tails. Cost: a sort.
SampleSummary summarise(std::span<const double> samples);

/// Rank (1 = smallest) of the lower end of the 95 % interval for `count` samples; at least 1.
std::size_t lower_rank(std::size_t count);

// ---- Removes the machine's drift from timings of contenders in interleaved rounds.
//
//     std::vector<ContenderSample> samples;
//     for (int round = 0; round < 24; ++round)
//       for (std::size_t contender : shuffled) samples.push_back({contender, time_us(contender)});
//     const std::vector<SampleSummary> summaries = without_drift(samples, contenders);
//
// A load on the other hardware thread of a core slows some instructions down for a while, and a virtual
// machine cannot see it. Medians do not average this out, because it hits the samples of some contenders more
// often than those of others. But it affects consecutive samples alike, so the common factor of neighbouring
// samples can be separated from the contenders' own speeds.

/// Number of samples on each side that estimate the machine's speed at one sample. Few samples follow fast
/// changes, many average out outliers of single contenders; 4 to 15 give the same choices.
inline constexpr std::size_t kDriftReach = 7;

/// One sample of one contender.
struct ContenderSample {
  std::size_t contender = 0;
  double time = 0;  ///< > 0, in any unit
};

/// Summaries per contender, in the samples' unit, at the machine's median speed. `samples` must be in the
/// order of measurement; contenders without a sample get count 0.
///
/// Method: log time = contender's term + machine's term + rest, fitted by alternating medians (J. W. Tukey,
/// "Exploratory Data Analysis", 1977: median polish); the machine's term is a running median over 2
/// kDriftReach + 1 samples. Cost: linear in the number of samples.
std::vector<SampleSummary> without_drift(std::span<const ContenderSample> samples, std::size_t contenders);

// ---- Times several candidates in interleaved rounds, each round in another order, and removes the machine's
// drift, so that no clock change, other load or slow phase favours one of them.
//
//     const auto summaries = time_in_rounds(launches.size(), {.budget_us = 5e4}, [&](std::size_t i) {
//       return std::optional(batch_us([&] { launches[i]->run(buffers, workspace); }, expected_us[i]));
//     });
//     summaries[2].median   // microseconds per call

struct RoundsRule {
  std::size_t rounds = 24;  ///< samples of each candidate; more samples separate drift and speed better
  std::size_t least = 0;    ///< minimum number of rounds, even beyond the budget
  /// Further rounds start only while the longest round so far fits in the remaining budget.
  double budget_us = std::numeric_limits<double>::infinity();
  std::uint32_t seed = 1;  ///< seed of the orders
};

/// `sample` receives the position and returns microseconds. If it returns nothing (the call failed), the
/// candidate leaves the rounds and its earlier samples are discarded. Returns summaries by position; count 0
/// for candidates that left, and for all when the budget allows no round.
std::vector<SampleSummary> time_in_rounds(std::size_t count, const RoundsRule& rule,
                                          const std::function<std::optional<double>(std::size_t)>& sample);

}  // namespace kscout
