#pragma once
/// \file
/// Predicts the times of a problem's configs from the few that were timed, with a Gaussian process over the
/// axes of the space and the expected cost.
///
///     TimeSurrogate surrogate(space, expected_us);   // NaN where nothing is expected
///     surrogate.learn(config, measured_us);
///     surrogate.optimistic();                        // per config: low values are worth timing next
///
/// The process models the difference between measured and expected times. A good expectation therefore needs
/// few corrections, and the surrogate also works without any. Equal input gives equal results; no random
/// numbers are drawn.
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

  /// Takes a time above 0 in microseconds. After 512 times, or 128 MiB of memory, further times are ignored.
  void learn(std::uint32_t config, double time_us);

  /// ln microseconds per config: the prediction minus two standard deviations.
  std::vector<double> optimistic() const;

 private:
  double similarity(std::uint32_t a, std::uint32_t b) const noexcept;
  /// Forward substitution with the Cholesky factor of the learned configs' covariance.
  std::vector<double> solve(std::vector<double> right) const;
  std::size_t learnt() const noexcept { return configs_.size(); }

  const SearchSpace& space_;
  std::size_t most_;                    ///< times that may be learned
  std::vector<double> expected_;        ///< ln microseconds; the median where nothing is expected
  std::vector<std::uint32_t> configs_;  ///< configs that were learned
  std::vector<double> logs_;            ///< ln microseconds of configs_
  /// Rows of the inverse factor times the covariance of learned and all configs: learnt() x space.size().
  std::vector<double> projected_;
  std::vector<std::vector<double>> factor_;  ///< lower triangle, row by row
  std::vector<double> variance_;             ///< remaining variance of each config, 1 at first
};

}  // namespace kscout
