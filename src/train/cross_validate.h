#pragma once
/// \file
/// Cross-validates a target. The speed of the chosen configs decides when training stops, not the prediction
/// error.
///
///     const auto folds = group_k_fold(set.problems, rows_per_problem, 5);
///     const CrossValidation cv = cross_validate(set, dataset, Target::relative, folds, options, progress);
///     // train the final model with cv.rounds trees
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <kscout/any_problem.h>

#include "op/problem_sets.h"
#include "train/lightgbm.h"
#include "train/training_set.h"

namespace kscout {

// ---- Splits problems into folds and keeps groups together (problems/problem_sets.h), so that a fold is
// evaluated on sizes, or shapes of weights, never seen in training.

/// The fold of each problem. `rows` holds each problem's number of rows, the weight of a group is their sum.
/// Assigns the heaviest group first, each to the lightest fold; ties are broken by size and by fold number,
/// so equal input gives equal folds. Throws invalid_argument when folds < 2 or there are fewer groups than
/// folds.
std::vector<std::uint32_t> group_k_fold(std::span<const Problem> problems,
                                        std::span<const std::uint32_t> rows, std::uint32_t folds,
                                        SplitBy by = SplitBy::sizes);

/// How the folds of a cross-validation grow. One by one takes a third of the memory and up to twice the time:
/// only one fold has a copy of its bins, and histograms are made column by column. The model is the same with
/// one thread, and growing one by one gives it with any number of threads.
enum class FoldGrowth : std::uint8_t {
  automatic,  ///< together up to kTogetherValues feature values
  together,
  one_by_one,
};
template <>
struct EnumWords<FoldGrowth> {
  static constexpr std::string_view what = "growth of folds";
  static constexpr std::array<std::string_view, 3> words = {"auto", "together", "one_by_one"};
};
/// Feature values of all rows. Folds of so many values take about 2 GB together.
inline constexpr std::size_t kTogetherValues = std::size_t{1} << 27;

/// Parameters of tree growing.
struct TrainParameters {
  int leaves = 31;
  double learning_rate = 0.1;
  int rounds = 600;      ///< maximum number of trees
  int min_rounds = 1;    ///< minimum number of trees: with few trees, many scores are tied
  int check_every = 10;  ///< rounds between evaluations of the validation folds
  int patience = 100;    ///< rounds without a better mean efficiency before training stops
  int min_rows = 10;     ///< in a leaf
  double feature_fraction = 0.8;
  std::vector<std::string> increasing;  ///< features that may only raise a score
  /// Features that the forests of scores do not use; only the forest for a problem's best speed uses them.
  std::vector<std::string> unscored;
  double near_best_weight = 0;  ///< weight of a problem's best row is 1 + this
  int threads = 1;              ///< with 1 thread, equal input gives equal bytes
  std::uint64_t seed = 42;
  FoldGrowth growth = FoldGrowth::automatic;
};

/// The growth for a training set, which is not automatic.
FoldGrowth growth_of(const TrainParameters& parameters, const TrainingSet& set);

/// LightGBM's parameter text for a target. FoldGrowth::automatic counts as together.
std::string lightgbm_parameters(const TrainParameters& parameters, Target target, const Schema& schema);

/// Speed of the chosen config divided by that of the best measured one, over problems.
struct EfficiencySummary {
  double mean = 0, p10 = 0, p50 = 0, min = 0;
  std::size_t problems = 0;
};

/// Efficiency in [0, 1] of the config with the best score of each problem; ties go to the earlier config.
/// `scores` has one entry per row of the set. Only problems with `take(problem)` are evaluated; results are
/// in their order.
std::vector<double> selection_efficiency(const TrainingSet& set, const std::vector<double>& scores,
                                         bool lower_is_better, const std::function<bool(std::size_t)>& take);
EfficiencySummary summarise(std::vector<double> efficiency);

struct FoldMetrics {
  std::uint32_t fold = 0;
  double rmse = 0, r2 = 0;  ///< against the labels; NaN for rank
  EfficiencySummary efficiency;
  std::size_t train_rows = 0, validation_rows = 0, validation_problems = 0;
};

struct CrossValidation {
  int rounds = 0;                   ///< trees at the best mean efficiency over the folds
  std::vector<double> out_of_fold;  ///< per row: score by the model that was trained without the row's fold
  EfficiencySummary efficiency;     ///< efficiency of choices by out_of_fold, over all problems
  std::vector<FoldMetrics> folds;
  std::vector<std::pair<int, double>> curve;  ///< number of trees, mean efficiency
};

/// Called with a text about the current step, always from the calling thread.
using Progress = std::function<void(const std::string&)>;

/// `whole` holds the rows of `set`; `fold_of` has one entry per problem. Growth ends when the efficiency
/// averaged over all problems has not improved for `patience` rounds. The result does not depend on
/// TrainParameters::growth, except that numbers of LightGBM differ in their last bits with several threads.
CrossValidation cross_validate(const TrainingSet& set, const lightgbm::Dataset& whole, const Schema& schema,
                               Target target, const std::vector<std::uint32_t>& fold_of,
                               const TrainParameters& parameters, const Progress& progress);

/// Number of rows of each problem, in the form that ranking targets need.
std::vector<std::int32_t> group_sizes(const TrainingSet& set, const std::function<bool(std::size_t)>& take);

}  // namespace kscout
