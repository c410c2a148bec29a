#pragma once
/// \file
/// Estimates the probability that a model's choice runs within 3 % of the best config.
///
///     const double octaves = region.distance(family, problem);
///     const double p = confidence.probability(family, problem, log_tflops, octaves);   // predicted, best first
///     fmt::print("{}", confidence_level(p));                                           // low, medium or high
///
/// Method: logistic regression with an L2 penalty on facts that are known at selection time;
/// train/confidence.h fits it to choices for problems whose sizes were held out from the forest.
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
  /// predicted ln TFLOPS between the first config and another one; sizes, which only older models use, are
  /// log2; `outside` is the distance to the trained problems (Region) less `inside`, at least 0.
  static constexpr std::array<std::string_view, 8> inputs = {
      "gap_to_second", "gap_to_third", "gap_to_eighth", "m", "n", "k", "batch", "outside"};
  static constexpr std::size_t first_size = 3;  ///< inputs first_size to first_size + sizes - 1 are sizes
  static constexpr std::size_t sizes = 4;
  /// Octaves: nine tenths and more of the held-out problems are nearer to the trained ones.
  static constexpr double inside = 2;
  using Inputs = std::array<double, inputs.size()>;

  double bias = 0;
  std::vector<double> family_bias;  ///< older models: per family, added to bias; empty: none
  Inputs weight{};                  ///< weight of each input in the log-odds
  /// Older models: log2 of the smallest and largest sizes in training. Other models have a distance instead.
  std::array<double, sizes> low{}, high{64, 64, 64, 64};
  bool operator==(const Confidence&) const = default;

  /// `family`: position of the problem's family in the model. `log_tflops`: up to `top` predictions, best
  /// first, relative to any common base. `octaves`: distance to the trained problems; 0 for a model without
  /// Region. Sizes outside `low` and `high` count as the nearest of them, and each factor of 2 outside halves
  /// the result. Returns 1 when there is no second config. Takes no lock, allocates nothing.
  double probability(std::size_t family, ProblemRef problem, std::span<const double> log_tflops,
                     double octaves) const noexcept;

  /// The sum of the common bias and the family's own.
  double bias_of(std::size_t family) const noexcept {
    return family_bias.empty() ? bias : bias + family_bias[family];
  }
};

/// The inputs, with sizes as they are, also outside the trained range. Needs at least two predictions.
Confidence::Inputs confidence_inputs(ProblemRef problem, std::span<const double> log_tflops,
                                     double octaves) noexcept;

/// "low" below 60 %, "high" from 80 %, else "medium"; "unknown" for NaN. How often picks of each level are
/// right: docs/bench/confidence_h200.md.
std::string_view confidence_level(double probability) noexcept;

/// 1 / (1 + e^-x).
double logistic(double x) noexcept;

/// Throws invalid_argument unless all numbers are finite, ranges are ordered, and the biases, if any, are one
/// per each of `families` families.
void check(const Confidence& confidence, std::size_t families);

}  // namespace kscout
