#include "train/best_tflops.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/fail.h"
#include "lightgbm/lightgbm.h"
#include "train/lightgbm.h"

namespace kscout {

namespace {

constexpr int kMaxRounds = 150, kCheckEvery = 10;  // each choice evaluates all of them

struct Fold {
  std::vector<std::int32_t> train, validation;
  lightgbm::Booster booster;
};

Fold make_fold(const lightgbm::Dataset& whole, const std::vector<std::uint32_t>& fold_of,
               std::uint32_t number, const std::string& parameters) {
  std::vector<std::int32_t> train, validation;
  for (std::size_t p = 0; p < fold_of.size(); ++p) {
    (fold_of[p] == number ? validation : train).push_back(static_cast<std::int32_t>(p));
  }
  lightgbm::Booster booster(lightgbm::Dataset(whole, train, parameters), parameters);
  booster.add_validation(lightgbm::Dataset(whole, validation, parameters));
  return {std::move(train), std::move(validation), std::move(booster)};
}

double squared_error(const std::vector<double>& predicted, const std::vector<float>& labels) {
  double sum = 0;
  for (std::size_t i = 0; i < labels.size(); ++i)
    sum += (predicted[i] - labels[i]) * (predicted[i] - labels[i]);
  return sum;
}

/// Finds the number of trees with the least squared error, returns it, and fills the out-of-fold predictions
/// for it.
int cross_validate_best(std::vector<Fold>& folds, const std::vector<float>& labels,
                        std::vector<double>& out_of_fold) {
  double least = std::numeric_limits<double>::infinity();
  int best = 1;
  std::vector<double> predicted(labels.size());
  for (int round = 1; round <= kMaxRounds; ++round) {
    for (Fold& fold : folds) fold.booster.update();
    if (round % kCheckEvery != 0) continue;
    for (const Fold& fold : folds) {
      const auto scores = fold.booster.scores(1);
      for (std::size_t i = 0; i < scores.size(); ++i)
        predicted[static_cast<std::size_t>(fold.validation[i])] = scores[i];
    }
    const double error = squared_error(predicted, labels);
    if (error < least) {
      least = error;
      best = round;
      out_of_fold = predicted;
    }
  }
  return best;
}

double r2_of(const std::vector<double>& predicted, const std::vector<float>& labels) {
  double mean = 0, total = 0;
  for (const float label : labels) mean += label / static_cast<double>(labels.size());
  for (const float label : labels) total += (label - mean) * (label - mean);
  return 1 - squared_error(predicted, labels) / std::max(total, 1e-10);
}

}  // namespace

BestTflops train_best_tflops(const TrainingSet& set, const Schema& schema,
                             const std::vector<std::uint32_t>& fold_of, std::uint64_t seed, int threads) {
  BestTflops result;
  std::vector<std::string> names;
  for (std::uint32_t f = 0; f < schema.size(); ++f) {
    if (!schema.depends(f).problem_only()) continue;
    result.features.push_back(f);
    names.push_back(schema.features()[f].id);
  }
  if (result.features.empty()) {
    fail(Errc::invalid_argument, "schema {} has no feature that depends on the problem only", schema.name());
  }
  std::vector<double> matrix;
  std::vector<float> labels;
  for (std::size_t p = 0; p < set.problems.size(); ++p) {
    const std::vector<double> values = set.first_features_of(p);  // equal in all rows
    for (const std::uint32_t f : result.features) matrix.push_back(values[f]);
    labels.push_back(static_cast<float>(set.log_best(p)));
  }
  const std::string parameters = fmt::format(
      "objective=regression num_leaves=15 learning_rate=0.15 min_data_in_leaf=3 lambda_l2=1 seed={} "
      "num_threads={} "
      "deterministic=true force_row_wise=true feature_pre_filter=false metric=none verbosity=-1",
      seed % (1U << 31), threads);
  lightgbm::Dataset whole(matrix, names, parameters);
  whole.set_labels(labels);
  std::vector<Fold> folds;
  const std::uint32_t count = *std::ranges::max_element(fold_of) + 1;
  for (std::uint32_t f = 0; f < count; ++f) folds.push_back(make_fold(whole, fold_of, f, parameters));
  const int rounds = cross_validate_best(folds, labels, result.out_of_fold);
  result.r2 = r2_of(result.out_of_fold, labels);
  lightgbm::Booster booster(whole, parameters);
  for (int round = 0; round < rounds && booster.update(); ++round) {
  }
  result.forest = parse_lightgbm(booster.text(rounds)).forest;
  return result;
}

}  // namespace kscout
