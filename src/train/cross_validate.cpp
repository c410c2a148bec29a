
#include "train/cross_validate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <string>

#include <fmt/format.h>

#include "core/fail.h"
#include "core/numbers.h"

namespace kscout {

std::vector<std::uint32_t> group_k_fold(std::span<const Problem> problems,
                                        std::span<const std::uint32_t> rows, std::uint32_t folds,
                                        SplitBy by) {
  struct Group {
    std::uint64_t weight = 0;
    std::vector<std::size_t> members;
  };
  std::map<ProblemSizes, Group> groups;
  for (std::size_t i = 0; i < problems.size(); ++i) {
    Group& group = groups[group_of(problems[i], by)];
    group.weight += rows[i];
    group.members.push_back(i);
  }
  if (folds < 2 || groups.size() < folds) {
    const std::string remedy =
        groups.size() < 2 ? "cross-validation needs at least 2; measure more problems"
                          : fmt::format("give 2 to {} folds or measure more problems", groups.size());
    fail(Errc::invalid_argument, "{} folds over {} distinct {}: {}", folds, groups.size(), word(by), remedy);
  }
  std::vector<const Group*> order;
  for (const auto& [key, group] : groups) order.push_back(&group);
  std::ranges::stable_sort(order, std::ranges::greater{}, [](const Group* group) { return group->weight; });

  std::vector<std::uint64_t> filled(folds);
  std::vector<std::uint32_t> fold_of(problems.size());
  for (const Group* group : order) {
    const auto lightest = static_cast<std::uint32_t>(std::ranges::min_element(filled) - filled.begin());
    filled[lightest] += group->weight;
    for (const std::size_t member : group->members) fold_of[member] = lightest;
  }
  return fold_of;
}

namespace {

/// A fold during training.
struct GrowingFold {
  std::uint32_t number;
  std::vector<std::int32_t> train_rows, validation_rows;
  lightgbm::Booster booster;
  bool finished = false;
};

std::vector<std::int32_t> rows_where(const TrainingSet& set, const std::function<bool(std::size_t)>& take) {
  std::vector<std::int32_t> rows;
  for (std::size_t p = 0; p < set.problems.size(); ++p) {
    if (!take(p)) continue;
    for (std::size_t r = set.first_row[p]; r < set.first_row[p + 1]; ++r)
      rows.push_back(static_cast<std::int32_t>(r));
  }
  return rows;
}

GrowingFold make_fold(const TrainingSet& set, const lightgbm::Dataset& whole, Target target,
                      const std::vector<std::uint32_t>& fold_of, std::uint32_t number,
                      const std::string& parameters) {
  const auto trains = [&](std::size_t p) { return fold_of[p] != number; };
  const auto validates = [&](std::size_t p) { return fold_of[p] == number; };
  auto train_rows = rows_where(set, trains), validation_rows = rows_where(set, validates);
  lightgbm::Dataset train(whole, train_rows, parameters), validation(whole, validation_rows, parameters);
  if (target == Target::rank) {
    train.set_groups(group_sizes(set, trains));
    validation.set_groups(group_sizes(set, validates));
  }
  lightgbm::Booster booster(train, parameters);
  booster.add_validation(validation);
  return {number, std::move(train_rows), std::move(validation_rows), std::move(booster)};
}

/// Collects the score of each row from the fold that did not train on it.
void collect_out_of_fold(const std::vector<GrowingFold>& folds, std::vector<double>& scores) {
  for (const GrowingFold& fold : folds) {
    const auto part = fold.booster.scores(1);
    for (std::size_t i = 0; i < part.size(); ++i)
      scores[static_cast<std::size_t>(fold.validation_rows[i])] = part[i];
  }
}

FoldMetrics fold_metrics(const TrainingSet& set, const GrowingFold& fold, Target target,
                         const std::vector<float>& labels, const std::vector<double>& scores,
                         const std::vector<std::uint32_t>& fold_of) {
  FoldMetrics metrics;
  metrics.fold = fold.number;
  metrics.train_rows = fold.train_rows.size();
  metrics.validation_rows = fold.validation_rows.size();
  const auto efficiency = selection_efficiency(set, scores, target == Target::latency,
                                               [&](std::size_t p) { return fold_of[p] == fold.number; });
  metrics.validation_problems = efficiency.size();
  metrics.efficiency = summarise(efficiency);
  metrics.rmse = metrics.r2 = std::numeric_limits<double>::quiet_NaN();
  if (target == Target::rank) return metrics;
  double mean = 0, residual = 0, total = 0;
  for (const auto r : fold.validation_rows) mean += labels[static_cast<std::size_t>(r)];
  mean /= static_cast<double>(fold.validation_rows.size());
  for (const auto r : fold.validation_rows) {
    const double label = labels[static_cast<std::size_t>(r)];
    residual += (label - scores[static_cast<std::size_t>(r)]) * (label - scores[static_cast<std::size_t>(r)]);
    total += (label - mean) * (label - mean);
  }
  metrics.rmse = std::sqrt(residual / static_cast<double>(fold.validation_rows.size()));
  metrics.r2 = 1 - residual / std::max(total, 1e-10);
  return metrics;
}

/// Monotone constraints of all features. Latency reverses their signs: a feature that raises a score lowers a
/// latency.
std::string monotone_text(const TrainParameters& p, Target target, const Schema& schema) {
  if (p.increasing.empty()) return {};
  std::vector<int> directions(schema.size(), 0);
  for (const std::string& feature : p.increasing)
    directions[schema.index(feature)] = target == Target::latency ? -1 : 1;
  return fmt::format(" monotone_constraints={}", fmt::join(directions, ","));
}

/// LightGBM's factors on the gain of features: 0 for features that scores do not read.
std::string contribution_text(const TrainParameters& p, const Schema& schema) {
  if (p.unscored.empty()) return {};
  std::vector<int> shares(schema.size(), 1);
  for (const std::string& feature : p.unscored) shares[schema.index(feature)] = 0;
  return fmt::format(" feature_contri={}", fmt::join(shares, ","));
}

}  // namespace

std::string lightgbm_parameters(const TrainParameters& p, Target target, const Schema& schema) {
  std::string text = fmt::format(
      "objective={} num_leaves={} learning_rate={} min_data_in_leaf={} feature_fraction={} seed={} "
      "num_threads={} "
      "deterministic=true force_row_wise=true feature_pre_filter=false metric=none verbosity=-1",
      objective_of(target), p.leaves, p.learning_rate, p.min_rows, p.feature_fraction, p.seed % (1U << 31),
      p.threads);
  const std::string increasing = monotone_text(p, target, schema);
  const auto categorical = schema.categorical();
  if (!categorical.empty()) text += fmt::format(" categorical_feature={}", fmt::join(categorical, ","));
  text += increasing + contribution_text(p, schema);
  if (target == Target::rank) {
    text += " label_gain=0";
    for (int grade = 1; grade <= kMaxRank; ++grade) text += fmt::format(",{}", grade);
  }
  return text;
}

std::vector<std::int32_t> group_sizes(const TrainingSet& set, const std::function<bool(std::size_t)>& take) {
  std::vector<std::int32_t> sizes;
  for (std::size_t p = 0; p < set.problems.size(); ++p) {
    if (take(p)) sizes.push_back(static_cast<std::int32_t>(set.first_row[p + 1] - set.first_row[p]));
  }
  return sizes;
}

std::vector<double> selection_efficiency(const TrainingSet& set, const std::vector<double>& scores,
                                         bool lower_is_better, const std::function<bool(std::size_t)>& take) {
  std::vector<double> efficiency;
  for (std::size_t p = 0; p < set.problems.size(); ++p) {
    if (!take(p)) continue;
    std::size_t pick = set.first_row[p];
    for (std::size_t r = pick + 1; r < set.first_row[p + 1]; ++r) {
      if (lower_is_better ? scores[r] < scores[pick] : scores[r] > scores[pick]) pick = r;
    }
    efficiency.push_back(std::min(set.rows[pick].tflops / set.best_tflops[p], 1.0));
  }
  return efficiency;
}

EfficiencySummary summarise(std::vector<double> efficiency) {
  if (efficiency.empty()) return {};
  std::ranges::sort(efficiency);
  const double sum = std::accumulate(efficiency.begin(), efficiency.end(), 0.0);
  return {sum / static_cast<double>(efficiency.size()), quantile(efficiency, 0.1), quantile(efficiency, 0.5),
          efficiency.front(), efficiency.size()};
}

CrossValidation cross_validate(const TrainingSet& set, const lightgbm::Dataset& whole, const Schema& schema,
                               Target target, const std::vector<std::uint32_t>& fold_of,
                               const TrainParameters& parameters, const Progress& progress) {
  const std::string text = lightgbm_parameters(parameters, target, schema);
  const std::uint32_t count = *std::ranges::max_element(fold_of) + 1;
  std::vector<GrowingFold> folds;
  for (std::uint32_t f = 0; f < count; ++f) folds.push_back(make_fold(set, whole, target, fold_of, f, text));

  CrossValidation result;
  double best = -1;
  std::vector<double> scores(set.row_count());
  for (int round = 1; round <= parameters.rounds; ++round) {
    bool grew = false;
    for (GrowingFold& fold : folds) {
      fold.finished = fold.finished || !fold.booster.update();
      grew = grew || !fold.finished;
    }
    const bool last = !grew || round == parameters.rounds;
    if (progress) {
      progress(fmt::format("{}: {} trees x {} folds, best selection efficiency {:.2f} % at {}", word(target),
                           round, count, 100 * std::max(best, 0.0), result.rounds));
    }
    if (!last && round % parameters.check_every != 0) continue;
    collect_out_of_fold(folds, scores);
    const auto summary = summarise(
        selection_efficiency(set, scores, target == Target::latency, [](std::size_t) { return true; }));
    result.curve.emplace_back(round, summary.mean);
    if (summary.mean > best && (round >= parameters.min_rounds || last)) {
      best = summary.mean;
      result.rounds = round;
      result.efficiency = summary;
      result.out_of_fold = scores;
    }
    if (last || (result.rounds > 0 && round - result.rounds >= parameters.patience)) break;
  }
  const auto labels = labels_of(set, target);
  for (const GrowingFold& fold : folds) {
    result.folds.push_back(fold_metrics(set, fold, target, labels, result.out_of_fold, fold_of));
  }
  return result;
}

}  // namespace kscout
