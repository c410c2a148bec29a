#pragma once
/// \file
/// How far a model's choice may be trusted: the probability that it runs within 3 % of the best config.
///
///     const double p = confidence.probability(family, problem, log_tflops);   // predicted, best first
///
/// Method: logistic regression on what is known when a choice is made, then Platt scaling (Platt 1999), both
/// fitted by train/confidence.h to choices among configs of problems whose sizes the forest had not seen. So
/// 0.7 means: of such choices about 70 of 100 were within 3 % of the fastest measured config.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <kscout/any_problem.h>

namespace kscout {

struct Confidence {
  /// A choice counts as right when it takes at most this much more than the best.
  static constexpr double within = 0.03;
  /// Configs of the ranking that are looked at.
  static constexpr std::size_t top = 8;

  /// Added to a gap before its logarithm is taken: a third of a percent is within what a forest can tell, and
  /// the logarithms of smaller gaps must not run away.
  static constexpr double min_gap = 0.003;

  /// What the probability is computed from, in the order of `weight`. Gaps are ln(gap + min_gap) of the
  /// difference in predicted ln TFLOPS between the first config and another; sizes are log2.
  static constexpr std::array<std::string_view, 7> inputs = {
      "gap_to_second", "gap_to_third", "gap_to_eighth", "m", "n", "k", "batch"};
  static constexpr std::size_t first_size = 3;  ///< inputs from here on are sizes
  static constexpr std::size_t sizes = inputs.size() - first_size;
  using Inputs = std::array<double, inputs.size()>;

  double bias = 0;
  std::vector<double> family_bias;   ///< per family, added to bias; empty: none has one of its own
  Inputs weight{};                   ///< of each input in the logarithm of the odds
  std::array<double, sizes> low{};   ///< log2 of the smallest sizes that were trained on
  std::array<double, sizes> high{};  ///< of the largest
  bool operator==(const Confidence&) const = default;

  /// `family`: position of the problem's family in the model. `log_tflops`: predicted, best first, up to
  /// `top` of them, from any common base. Sizes beyond those
  /// trained on count as the nearest trained one, and each octave beyond halves the result: how much less a
  /// forest knows there cannot be learned from data inside. 1 when there is no second config. Takes no lock,
  /// allocates nothing.
  double probability(std::size_t family, ProblemRef problem,
                     std::span<const double> log_tflops) const noexcept;

  /// The common bias and the family's own.
  double bias_of(std::size_t family) const noexcept {
    return family_bias.empty() ? bias : bias + family_bias[family];
  }
};

/// The inputs as they stand, sizes not held to any range. At least two predictions.
Confidence::Inputs confidence_inputs(ProblemRef problem, std::span<const double> log_tflops) noexcept;

/// 1 / (1 + e^-x).
double logistic(double x) noexcept;

/// Throws invalid_argument unless all numbers are finite, ranges are ranges, and there is one bias, if any,
/// for each of `families` families.
void check(const Confidence& confidence, std::size_t families);

}  // namespace kscout
