#include "measure/samples.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace kscout {

namespace {

double median_of_sorted(std::span<const double> sorted) {
  const std::size_t middle = sorted.size() / 2;
  return sorted.size() % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

}  // namespace

double SampleSummary::relative_half_width() const noexcept {
  if (count < 2) return std::numeric_limits<double>::infinity();
  if (high == low) return 0;
  return (high - low) / 2 / median;
}

std::size_t lower_rank(std::size_t count) {
  // Sum of Binomial(n, 1/2) from below until 2.5 % are used up.
  double term = std::exp2(-static_cast<double>(count)), sum = term;
  std::size_t rank = 0;
  while (sum <= 0.025 && rank < count) {
    ++rank;
    term *= static_cast<double>(count - rank + 1) / static_cast<double>(rank);
    sum += term;
  }
  return std::max<std::size_t>(rank, 1);
}

SampleSummary summarise(std::span<const double> samples) {
  SampleSummary summary;
  summary.count = samples.size();
  if (samples.empty()) return summary;
  std::vector<double> sorted(samples.begin(), samples.end());
  std::ranges::sort(sorted);
  summary.median = median_of_sorted(sorted);
  const std::size_t rank = lower_rank(sorted.size());
  summary.low = sorted[rank - 1];
  summary.high = sorted[sorted.size() - rank];
  for (double& value : sorted) value = std::abs(value - summary.median);
  std::ranges::sort(sorted);
  summary.spread = summary.median > 0 ? median_of_sorted(sorted) / summary.median : 0;
  return summary;
}

}  // namespace kscout
