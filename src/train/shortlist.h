#pragma once
/// \file
/// Trains the shortlist of a model, and measures its cost out of fold.
///
///     const ShortlistFit fit =
///         fit_shortlist(set, families, device, fold_of, scores, /*lower_is_better=*/false, seed);
///     fit.mean_loss();    // 0.0002: choices from shortlists are 0.02 points slower than among all configs
///
/// The network learns the probability of each config under a softmax of the measured efficiencies with
/// temperature 0.05, so that configs within a few per cent of the best share the probability. One network
/// covers all families of a model. Method: a perceptron with two hidden layers of 64, trained by AdamW
/// (Loshchilov and Hutter, ICLR 2019) with a cosine schedule. Weights are then rounded to 8 bits, with one
/// scale factor per row of a hidden layer.
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "forest/shortlist.h"
#include "train/training_set.h"

namespace kscout {

/// Learned from the problems p with take(p) whose family has more than kNoShortlistFamily configs; nothing
/// when there is none.
std::optional<Shortlist> train_shortlist(const TrainingSet& set, std::span<const Family> families,
                                         const std::function<bool(std::size_t)>& take, std::uint64_t seed);

/// A shortlist and its cost on problems that it was not trained on.
struct ShortlistFit {
  /// Maximum loss of mean efficiency; a model whose shortlist loses more gets no shortlist.
  static constexpr double max_loss = 0.001;
  /// Maximum number of folds; folds of the forest are joined when it has more.
  static constexpr std::uint32_t folds = 5;

  std::optional<Shortlist> shortlist;  ///< trained on all problems; nothing when it costs too much
  std::size_t problems = 0;
  /// Mean efficiency of the choice among all configs, and among the shortlisted ones.
  double mean_all = 0, mean_shortlisted = 0;
  double p10_all = 0, p10_shortlisted = 0;

  double mean_loss() const noexcept { return mean_all - mean_shortlisted; }
};

/// `scores`: out-of-fold score of each row of the set; `fold_of`: the fold of each problem.
ShortlistFit fit_shortlist(const TrainingSet& set, std::span<const Family> families,
                           std::span<const std::uint32_t> fold_of, std::span<const double> scores,
                           bool lower_is_better, std::uint64_t seed);

}  // namespace kscout
