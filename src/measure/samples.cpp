
#include "measure/samples.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "measure/timing.h"

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
  // Sums Binomial(n, 1/2) from below until 2.5 % are reached.
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

namespace {

constexpr int kSweeps = 4;  // iterations of alternating medians; a fifth changes no median by more than 0.1 %

/// Reorders the values.
double median_of(std::span<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

/// Fits log time = contender + moment + rest.
class Polish {
 public:
  Polish(std::span<const ContenderSample> samples, std::size_t contenders)
      : samples_(samples), moment_(samples.size()), level_(contenders), own_(contenders) {
    for (const ContenderSample& sample : samples) logs_.push_back(std::log(sample.time));
    fit_contenders();
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
      fit_moments();
      fit_contenders();
    }
    if (samples.empty()) return;
    std::vector<double> moments = moment_;
    usual_ = median_of(moments);
  }

  double corrected(std::size_t sample) const { return std::exp(logs_[sample] - moment_[sample] + usual_); }

 private:
  void fit_contenders() {
    for (auto& values : own_) values.clear();
    for (std::size_t i = 0; i < logs_.size(); ++i)
      own_[samples_[i].contender].push_back(logs_[i] - moment_[i]);
    for (std::size_t contender = 0; contender < own_.size(); ++contender) {
      if (!own_[contender].empty()) level_[contender] = median_of(own_[contender]);
    }
  }

  void fit_moments() {
    for (std::size_t i = 0; i < logs_.size(); ++i) {
      const std::size_t begin = i - std::min(i, kDriftReach),
                        end = std::min(logs_.size(), i + kDriftReach + 1);
      near_.clear();
      for (std::size_t j = begin; j < end; ++j) near_.push_back(logs_[j] - level_[samples_[j].contender]);
      moment_[i] = median_of(near_);
    }
  }

  std::span<const ContenderSample> samples_;
  std::vector<double> logs_, moment_;  ///< per sample
  std::vector<double> level_;          ///< per contender
  std::vector<std::vector<double>> own_;
  std::vector<double> near_;
  double usual_ = 0;
};

}  // namespace

std::vector<SampleSummary> without_drift(std::span<const ContenderSample> samples, std::size_t contenders) {
  const Polish polish(samples, contenders);
  std::vector<std::vector<double>> corrected(contenders);
  for (std::size_t i = 0; i < samples.size(); ++i)
    corrected[samples[i].contender].push_back(polish.corrected(i));
  std::vector<SampleSummary> summaries;
  for (const auto& own : corrected) summaries.push_back(summarise(own));
  return summaries;
}

std::vector<SampleSummary> time_in_rounds(std::size_t count, const RoundsRule& rule,
                                          const std::function<std::optional<double>(std::size_t)>& sample) {
  std::mt19937 random(rule.seed);
  std::vector<std::size_t> left(count);
  std::iota(left.begin(), left.end(), 0);
  std::vector<ContenderSample> samples;
  double spent_us = 0, longest_us = 0;
  for (std::size_t round = 0; round < rule.rounds && !left.empty(); ++round) {
    if (round >= rule.least && spent_us + longest_us > rule.budget_us) break;
    std::ranges::shuffle(left, random);
    const std::int64_t begin = now_ns();
    std::vector<std::size_t> failed;
    for (const std::size_t i : left) {
      if (const auto us = sample(i)) {
        samples.push_back({i, *us});
      } else {
        failed.push_back(i);
      }
    }
    for (const std::size_t i : failed) {
      std::erase(left, i);
      std::erase_if(samples, [&](const ContenderSample& one) { return one.contender == i; });
    }
    const double round_us = static_cast<double>(now_ns() - begin) / 1e3;
    spent_us += round_us;
    longest_us = std::max(longest_us, round_us);
  }
  return without_drift(samples, count);
}

}  // namespace kscout
