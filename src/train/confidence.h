#pragma once
/// \file
/// Fits how far choices may be trusted, on choices among configs of sizes that the forest had not seen.
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

/// With fewer choices no probability is told, nor are any left out; with fewer in a family it gets no bias of
/// its own.
inline constexpr std::size_t kMinChoices = 50;

/// A choice whose outcome is known.
struct ObservedChoice {
  std::size_t family = 0;  ///< of the problem: position in the model
  Confidence::Inputs inputs{};
  double efficiency = 0;         ///< of the pick
  std::uint32_t fold = 0;        ///< choices of one fold share sizes; others share none with them
  double reference_repeats = 0;  ///< median samples of the configs within 3 % of the best; 0: not known
};

/// What each problem's out-of-fold scores would have chosen. Problems with one config say nothing and are
/// left out. `target`: the trained forest's calibration of scores to speed.
std::vector<ObservedChoice> observed_choices(const TrainingSet& set, const TargetForest& target,
                                             const std::vector<double>& out_of_fold,
                                             const std::vector<std::uint32_t>& fold_of,
                                             std::span<const Family> families);

/// Choices whose outcome is known well: the fastest of few samples is partly luck, and a choice that was as
/// good counts as a failure. Left out are those with less than half of the reference_repeats that the
/// best-measured twentieth has, unless fewer than kMinChoices would be left.
std::vector<ObservedChoice> precisely_measured(std::span<const ObservedChoice> choices);

struct ConfidenceFit {
  /// Of one family, out of fold; NaN without choices.
  struct OfFamily {
    std::size_t choices = 0;
    double within_rate = 0;  ///< share within 3 %
    double as_seen = 0;      ///< mean of as_seen: what should be within_rate
    double claimed = 0;      ///< mean of claimed
  };
  Confidence confidence;
  /// Per precisely measured choice, by a fit to the other folds: the probability of being right as it was
  /// measured, and what is claimed.
  std::vector<double> as_seen, claimed;
  /// Claims are as if the best were known by so many samples; nothing when these do not matter, and both are
  /// the same.
  std::optional<double> claimed_for_repeats;
  double within_rate = 0;          ///< share of them within 3 %; so all that follow
  double log_loss = 0;             ///< of as_seen, natural logarithm
  double log_loss_of_rate = 0;     ///< of claiming within_rate always: what knowing nothing gives
  double efficiency = 0;           ///< mean of the picks
  std::vector<OfFamily> families;  ///< as in the model
};

/// Of the precisely measured choices; the sizes that count as trained are those of all. Nothing when there
/// are fewer than kMinChoices or all ended alike: then no probability can be told.
///
/// Among these, too, luck makes more good choices fail where the best has fewer samples. So the regression
/// may be told how many these are (the log2 of reference_repeats, where all are known); claims are then for
/// as many as the best-measured twentieth of all choices has at least.
///
/// Of `families` families those with kMinChoices precisely measured choices get a bias of their own, where
/// there are two such: what the inputs do not tell makes choices of one layout fail more often than
/// another's. It is one more weight of the regression, pulled towards 0, so that few choices tell little; the
/// others have about the mean of those that were told apart.
///
/// Whether families and samples are told is what gives the least log loss out of fold. Each choice's family
/// is below `families` (std::out_of_range).
std::optional<ConfidenceFit> fit_confidence(std::span<const ObservedChoice> choices,
                                            std::size_t families = 1);

}  // namespace kscout
