#pragma once
/// \file
/// What a set of timings says: median, spread and how sure the median is.
///
///     const SampleSummary s = summarise(samples);
///     if (s.relative_half_width() < 0.02) ...   // the median is known to 2 %
#include <cstddef>
#include <limits>
#include <span>

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

}  // namespace kscout
