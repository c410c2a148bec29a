#pragma once
/// \file
/// Trains the shortlist of a model, and measures out of fold what it costs.
///
///     const ShortlistFit fit = fit_shortlist(set, families, device, fold_of, scores, /*lower_is_better=*/false, seed);
///     fit.mean_loss();    // 0.0002: choices from shortlists are 0.02 points slower than among all configs
///
/// What is learned: the probability of each config under a softmax of the measured efficiencies with
/// temperature 0.05, so that configs within a few per cent of the best share it. One network serves all
/// families of a model. Method: a perceptron with two hidden layers of 128, AdamW (Loshchilov and Hutter,
/// ICLR 2019) with a cosine schedule; then weights are rounded to 8 bits, each row of a hidden layer in its
/// own unit.
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "forest/shortlist.h"
#include "train/training_set.h"

namespace kscout {

/// Learned from the problems p with take(p) that belong to a family of more than kNoShortlistFamily configs;
/// nothing when there is none.
std::optional<Shortlist> train_shortlist(const TrainingSet& set, std::span<const Family> families,
                                         const std::function<bool(std::size_t)>& take, std::uint64_t seed);

/// A shortlist and what it cost on problems that it was not trained on.
struct ShortlistFit {
  /// A model whose shortlist loses more of the mean efficiency than this goes without.
  static constexpr double max_loss = 0.001;
  static constexpr std::uint32_t folds = 5;  ///< at most: folds of the forest are joined

  std::optional<Shortlist> shortlist;  ///< trained on all problems; nothing when it costs too much
  std::size_t problems = 0;
  double mean_all = 0,
         mean_shortlisted = 0;  ///< efficiency of the choice among all configs, among the shortlisted ones
  double p10_all = 0, p10_shortlisted = 0;

  double mean_loss() const noexcept { return mean_all - mean_shortlisted; }
};

/// `scores`: out-of-fold score of each row of the set; `fold_of`: the fold of each problem.
ShortlistFit fit_shortlist(const TrainingSet& set, std::span<const Family> families,
                           std::span<const std::uint32_t> fold_of, std::span<const double> scores,
                           bool lower_is_better, std::uint64_t seed);

}  // namespace kscout
