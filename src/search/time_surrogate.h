#pragma once
/// \file
/// Predicts the times of a problem's configs from the few that were timed: a Gaussian process over the
/// space's axes and the expected cost.
///
///     TimeSurrogate surrogate(space, expected_us);   // NaN where nothing is expected
///     surrogate.learn(config, measured_us);
///     surrogate.optimistic();                        // per config: the lower its value, the more it promises
///
/// The process models how far measured times lie from the expected ones, so a good model of the times needs
/// few corrections and an absent one none at all. Same results on every run; no random numbers.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "search/space.h"

namespace kscout {

class TimeSurrogate {
 public:
  /// `expected_us`: one per config of the space, or empty. The space must outlive the surrogate.
  TimeSurrogate(const SearchSpace& space, std::span<const double> expected_us);

  /// Takes a time above 0 in microseconds. Past 512 times, or 128 MiB, further ones are ignored.
  void learn(std::uint32_t config, double time_us);

  /// ln microseconds per config: the prediction less two standard deviations.
  std::vector<double> optimistic() const;

 private:
  double similarity(std::uint32_t a, std::uint32_t b) const noexcept;
  /// Forward substitution with the factor of the learnt configs' covariance.
  std::vector<double> solve(std::vector<double> right) const;
  std::size_t learnt() const noexcept { return configs_.size(); }

  const SearchSpace& space_;
  std::size_t most_;                    ///< times that may be learnt
  std::vector<double> expected_;        ///< ln microseconds; the median where nothing is expected
  std::vector<std::uint32_t> configs_;  ///< those that were learnt
  std::vector<double> logs_;            ///< of them: ln microseconds
  /// Rows of the inverse factor times the covariance of learnt and all configs: learnt() x space.size().
  std::vector<double> projected_;
  std::vector<std::vector<double>> factor_;  ///< lower triangle, row by row
  std::vector<double> variance_;             ///< what is still unknown of each config, 1 at first
};

}  // namespace kscout
