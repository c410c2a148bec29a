#pragma once
/// \file
/// Fits the confidence of a model: the probability that a pick is right, learned from out-of-fold choices.
///
///     const auto choices = observed_choices(set, target, out_of_fold, fold_of, families);
///     const auto fit = fit_confidence(choices);
///     if (fit) data.confidence = fit->confidence;
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "select/confidence.h"
#include "select/model.h"
#include "train/region.h"
#include "train/training_set.h"

namespace kscout {

/// Minimum number of choices: with fewer, no confidence is fitted and precisely_measured() leaves none out.
inline constexpr std::size_t kMinChoices = 50;

/// A choice whose outcome is known.
struct ObservedChoice {
  Confidence::Inputs inputs{};
  double efficiency = 0;  ///< of the pick
  /// Choices of one fold may share sizes; choices of different folds share none.
  std::uint32_t fold = 0;
  double reference_repeats = 0;  ///< median samples of the configs within 3 % of the best; 0: unknown
};

/// The choice that each problem's out-of-fold scores make. Problems with one config are left out. A problem's
/// distance is that to the prototypes of the other folds. `target`: the trained forest's calibration of
/// scores to speed.
std::vector<ObservedChoice> observed_choices(const TrainingSet& set, const ModelTarget& target,
                                             const std::vector<double>& out_of_fold,
                                             const std::vector<std::uint32_t>& fold_of,
                                             std::span<const Family> families);

/// The choices whose outcome is measured precisely. With few samples, luck decides which of several equally
/// good configs is the fastest, so a good choice may count as a failure. Left out are choices with less than
/// half of the reference_repeats that the best-measured 5 % have, unless fewer than kMinChoices would be
/// left.
std::vector<ObservedChoice> precisely_measured(std::span<const ObservedChoice> choices);

struct ConfidenceFit {
  Confidence confidence;
  /// Per precisely measured choice: the probability that it is right, by a fit to the other folds.
  std::vector<double> out_of_fold;
  /// Share of the precisely measured choices within 3 %; the members below use the same choices.
  double within_rate = 0;
  double log_loss = 0;  ///< of out_of_fold, natural logarithm
  /// Log loss of always claiming within_rate: the result without any knowledge.
  double log_loss_of_rate = 0;
  double efficiency = 0;  ///< mean efficiency of the picks
};

/// Fits one logistic regression with an L2 penalty to the precisely measured choices. Nothing when there are
/// fewer than kMinChoices, or all have the same outcome. Its inputs are the gaps and the distance outside the
/// trained region. Sizes and biases of families are no inputs: each lowered the log loss on another
/// distribution by less than 5 % (docs/bench/confidence_h200.md). The number of samples is none either; no
/// trial tested it alone.
std::optional<ConfidenceFit> fit_confidence(std::span<const ObservedChoice> choices);

}  // namespace kscout
