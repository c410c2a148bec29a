#pragma once
/// \file
/// Estimates the probability that a model's choice runs within 3 % of the best config.
///
///     const double p = confidence.probability(family, problem, log_tflops);   // predicted, best first
///
/// Method: logistic regression on facts that are known at selection time, then Platt scaling (Platt 1999).
/// train/confidence.h fits both to choices for problems whose sizes were held out from the forest. So 0.7
/// means: about 70 of 100 such choices were within 3 % of the fastest measured config.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <kscout/any_problem.h>

namespace kscout {

struct Confidence {
  /// A choice counts as right when its time exceeds the best by at most this fraction.
  static constexpr double within = 0.03;
  /// Number of best-ranked configs that the probability is computed from.
  static constexpr std::size_t top = 8;

  /// Added to a gap before its logarithm is taken: a forest cannot distinguish gaps below a third of a
  /// percent, and the logarithms of smaller gaps must stay bounded.
  static constexpr double min_gap = 0.003;

  /// The inputs of the probability, in the order of `weight`. Gaps are ln(gap + min_gap) of the difference in
  /// predicted ln TFLOPS between the first config and another one; sizes are log2.
  static constexpr std::array<std::string_view, 7> inputs = {
      "gap_to_second", "gap_to_third", "gap_to_eighth", "m", "n", "k", "batch"};
  static constexpr std::size_t first_size = 3;  ///< the inputs from this index on are sizes
  static constexpr std::size_t sizes = inputs.size() - first_size;
  using Inputs = std::array<double, inputs.size()>;

  double bias = 0;
  std::vector<double> family_bias;   ///< per family, added to bias; empty: no family has a bias of its own
  Inputs weight{};                   ///< weight of each input in the log-odds
  std::array<double, sizes> low{};   ///< log2 of the smallest sizes in training
  std::array<double, sizes> high{};  ///< log2 of the largest sizes in training
  bool operator==(const Confidence&) const = default;

  /// `family`: position of the problem's family in the model. `log_tflops`: up to `top` predictions, best
  /// first, relative to any common base. Sizes outside the trained range count as the nearest trained size,
  /// and each factor of 2 outside the range halves the result, because data inside the range cannot show how
  /// accuracy falls outside. Returns 1 when there is no second config. Takes no lock, allocates nothing.
  double probability(std::size_t family, ProblemRef problem,
                     std::span<const double> log_tflops) const noexcept;

  /// The sum of the common bias and the family's own.
  double bias_of(std::size_t family) const noexcept {
    return family_bias.empty() ? bias : bias + family_bias[family];
  }
};

/// The inputs, with sizes as they are, also outside the trained range. Needs at least two predictions.
Confidence::Inputs confidence_inputs(ProblemRef problem, std::span<const double> log_tflops) noexcept;

/// 1 / (1 + e^-x).
double logistic(double x) noexcept;

/// Throws invalid_argument unless all numbers are finite, ranges are ordered, and the biases, if any, are one
/// per each of `families` families.
void check(const Confidence& confidence, std::size_t families);

}  // namespace kscout
