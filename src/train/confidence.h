#pragma once
/// \file
/// Fits the confidence of a model: the probability that a pick is right, learned from out-of-fold choices.
///
///     const auto choices = observed_choices(set, target, out_of_fold, fold_of, families);
///     const auto fit = fit_confidence(choices, families.size());
///     if (fit) data.confidence = fit->confidence;
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "select/confidence.h"
#include "select/model.h"
#include "train/training_set.h"

namespace kscout {

/// Minimum number of choices: with fewer, no confidence is fitted and precisely_measured() leaves none out. A
/// family with fewer gets no bias of its own.
inline constexpr std::size_t kMinChoices = 50;

/// A choice whose outcome is known.
struct ObservedChoice {
  std::size_t family = 0;  ///< family of the problem: position in the model
  Confidence::Inputs inputs{};
  double efficiency = 0;  ///< of the pick
  /// Choices of one fold may share sizes; choices of different folds share none.
  std::uint32_t fold = 0;
  double reference_repeats = 0;  ///< median samples of the configs within 3 % of the best; 0: unknown
};

/// The choice that each problem's out-of-fold scores make. Problems with one config are left out. `target`:
/// the trained forest's calibration of scores to speed.
std::vector<ObservedChoice> observed_choices(const TrainingSet& set, const TargetForest& target,
                                             const std::vector<double>& out_of_fold,
                                             const std::vector<std::uint32_t>& fold_of,
                                             std::span<const Family> families);

/// The choices whose outcome is measured precisely. With few samples, luck decides which of several equally
/// good configs is the fastest, so a good choice may count as a failure. Left out are choices with less than
/// half of the reference_repeats that the best-measured 5 % have, unless fewer than kMinChoices would be
/// left.
std::vector<ObservedChoice> precisely_measured(std::span<const ObservedChoice> choices);

struct ConfidenceFit {
  /// Results of one family, out of fold; NaN without choices.
  struct OfFamily {
    std::size_t choices = 0;
    double within_rate = 0;  ///< share within 3 %
    double as_seen = 0;      ///< mean of as_seen, which should equal within_rate
    double claimed = 0;      ///< mean of claimed
  };
  Confidence confidence;
  /// Per precisely measured choice: the probability that it is right, by a fit to the other folds. as_seen
  /// uses the choice's own number of samples, claimed uses claimed_for_repeats.
  std::vector<double> as_seen, claimed;
  /// Claims assume that the best config was measured with this many samples. Nothing when the number of
  /// samples is no input; as_seen and claimed are then equal.
  std::optional<double> claimed_for_repeats;
  /// Share of the precisely measured choices within 3 %; the members below use the same choices.
  double within_rate = 0;
  double log_loss = 0;  ///< of as_seen, natural logarithm
  /// Log loss of always claiming within_rate: the result without any knowledge.
  double log_loss_of_rate = 0;
  double efficiency = 0;           ///< mean efficiency of the picks
  std::vector<OfFamily> families;  ///< in the order of the model
};

/// Fits the precisely measured choices. The range of trained sizes covers all choices. Nothing when there are
/// fewer than kMinChoices, or all have the same outcome.
///
/// Measurement noise makes more good choices fail where the best config has fewer samples. So the regression
/// may use the log2 of reference_repeats as an input, where it is known for all choices. Claims then assume
/// as many samples as the best-measured 5 % of all choices have at least.
///
/// Each of the `families` families with at least kMinChoices precisely measured choices gets a bias of its
/// own, if there are at least two such families: choices of one layout may fail more often than another's for
/// reasons that the inputs do not contain. The bias is one more weight of the regression with the same
/// penalty, so few choices move it little. The other families use about the mean of these biases.
///
/// Cross-validated log loss decides whether the regression includes family biases and sample counts. Each
/// choice's family is below `families` (else std::out_of_range).
std::optional<ConfidenceFit> fit_confidence(std::span<const ObservedChoice> choices,
                                            std::size_t families = 1);

}  // namespace kscout
