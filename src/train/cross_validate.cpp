
#include "train/cross_validate.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
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
  std::vector<std::int32_t> validation_rows;
  lightgbm::Booster booster;
  bool finished = false;

  void grow() { finished = finished || !booster.update(); }
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
  auto validation_rows = rows_where(set, validates);
  lightgbm::Dataset train(whole, rows_where(set, trains), parameters),
      validation(whole, validation_rows, parameters);
  if (target == Target::rank) {
    train.set_groups(group_sizes(set, trains));
    validation.set_groups(group_sizes(set, validates));
  }
  lightgbm::Booster booster(train, parameters);
  booster.add_validation(validation);
  return {number, std::move(validation_rows), std::move(booster)};
}

/// Sets the scores of the rows that a fold did not train on.
void collect_out_of_fold(const GrowingFold& fold, std::vector<double>& scores) {
  const auto part = fold.booster.scores(1);
  for (std::size_t i = 0; i < part.size(); ++i)
    scores[static_cast<std::size_t>(fold.validation_rows[i])] = part[i];
}

FoldMetrics fold_metrics(const TrainingSet& set, std::uint32_t fold, Target target,
                         const std::vector<float>& labels, const std::vector<double>& scores,
                         const std::vector<std::uint32_t>& fold_of) {
  FoldMetrics metrics;
  const auto validates = [&](std::size_t p) { return fold_of[p] == fold; };
  const std::vector<std::int32_t> validation_rows = rows_where(set, validates);
  metrics.fold = fold;
  metrics.train_rows = set.row_count() - validation_rows.size();
  metrics.validation_rows = validation_rows.size();
  const auto efficiency = selection_efficiency(set, scores, target == Target::latency, validates);
  metrics.validation_problems = efficiency.size();
  metrics.efficiency = summarise(efficiency);
  metrics.rmse = metrics.r2 = std::numeric_limits<double>::quiet_NaN();
  if (target == Target::rank) return metrics;
  double mean = 0, residual = 0, total = 0;
  for (const auto r : validation_rows) mean += labels[static_cast<std::size_t>(r)];
  mean /= static_cast<double>(validation_rows.size());
  for (const auto r : validation_rows) {
    const double label = labels[static_cast<std::size_t>(r)];
    residual += (label - scores[static_cast<std::size_t>(r)]) * (label - scores[static_cast<std::size_t>(r)]);
    total += (label - mean) * (label - mean);
  }
  metrics.rmse = std::sqrt(residual / static_cast<double>(validation_rows.size()));
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
      "deterministic=true force_{}_wise=true feature_pre_filter=false metric=none verbosity=-1",
      objective_of(target), p.leaves, p.learning_rate, p.min_rows, p.feature_fraction, p.seed % (1U << 31),
      p.threads, p.growth == FoldGrowth::one_by_one ? "col" : "row");
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
    efficiency.push_back(std::min(set.tflops(p, pick) / set.best_tflops[p], 1.0));
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

namespace {

/// Follows the efficiency of choices while trees grow, and decides when growth ends.
class GrowthCurve {
 public:
  GrowthCurve(const TrainParameters& parameters, int patience)
      : parameters_(parameters), patience_(patience) {}

  /// Whether choices are evaluated after a round.
  bool checks(int round, bool all_finished) const {
    return ends(round, all_finished) || round % parameters_.check_every == 0;
  }
  /// Takes the efficiency of each problem's choice; true when they are the best so far.
  bool add(int round, bool all_finished, std::vector<double> efficiency) {
    const EfficiencySummary summary = summarise(std::move(efficiency));
    result.curve.emplace_back(round, summary.mean);
    const bool last = ends(round, all_finished);
    const bool better = summary.mean > best_ && (round >= parameters_.min_rounds || last);
    if (better) {
      best_ = summary.mean;
      result.rounds = round;
      result.efficiency = summary;
    }
    ended = last || (result.rounds > 0 && round - result.rounds >= patience_);
    return better;
  }
  /// The best so far, for a report of progress. A warm start takes none before its last round.
  std::string best_text() const {
    if (best_ < 0) return {};
    return fmt::format(", best selection efficiency {:.2f} % at {}", 100 * best_, result.rounds);
  }

  CrossValidation result;
  bool ended = false;

 private:
  bool ends(int round, bool all_finished) const { return all_finished || round == parameters_.rounds; }

  const TrainParameters& parameters_;
  int patience_;
  double best_ = -1;
};

struct Task {
  const TrainingSet& set;
  const lightgbm::Dataset& whole;
  Target target;
  const std::vector<std::uint32_t>& fold_of;
  const TrainParameters& parameters;
  const Progress& progress;
  std::string text;     ///< parameters for LightGBM
  std::uint32_t folds;  ///< how many

  GrowingFold fold(std::uint32_t number) const {
    return make_fold(set, whole, target, fold_of, number, text);
  }
  std::vector<double> efficiency(const std::vector<double>& scores,
                                 const std::function<bool(std::size_t)>& take) const {
    return selection_efficiency(set, scores, target == Target::latency, take);
  }
};

CrossValidation grow_together(const Task& task) {
  std::vector<GrowingFold> folds;
  for (std::uint32_t f = 0; f < task.folds; ++f) folds.push_back(task.fold(f));
  GrowthCurve curve(task.parameters, task.parameters.patience);
  std::vector<double> scores(task.set.row_count());
  for (int round = 1; !curve.ended; ++round) {
    for (GrowingFold& fold : folds) fold.grow();
    if (task.progress) {
      task.progress(
          fmt::format("{}: {} trees x {} folds{}", word(task.target), round, task.folds, curve.best_text()));
    }
    const bool all_finished = std::ranges::all_of(folds, &GrowingFold::finished);
    if (!curve.checks(round, all_finished)) continue;
    for (const GrowingFold& fold : folds) collect_out_of_fold(fold, scores);
    if (curve.add(round, all_finished, task.efficiency(scores, [](std::size_t) { return true; })))
      curve.result.out_of_fold = scores;
  }
  return std::move(curve.result);
}

/// A fold that has grown, without its rows.
struct GrownFold {
  int rounds = 0;                             ///< rounds grown
  int finished_at = 0;                        ///< the round that could add no tree; 0: none
  std::map<int, std::vector<double>> checks;  ///< efficiency of each validation problem, by round
  std::string trees;                          ///< LightGBM's model

  bool finished(int round) const { return finished_at > 0 && round >= finished_at; }
  const std::vector<double>& at(int round) const {
    const auto found = checks.find(round);
    return found != checks.end() ? found->second : checks.rbegin()->second;
  }
};

/// Grows fold number `grown.size()` until the curve over all folds so far ends, or for `limit` rounds. Sets
/// the scores of its validation rows.
GrownFold grow_next(const Task& task, const std::vector<GrownFold>& grown, int limit, GrowthCurve& curve,
                    std::vector<double>& scores) {
  const auto number = static_cast<std::uint32_t>(grown.size());
  GrowingFold fold = task.fold(number);
  GrownFold next;
  while (!curve.ended && next.rounds < limit) {
    const int round = ++next.rounds;
    fold.grow();
    if (fold.finished && next.finished_at == 0) next.finished_at = round;
    if (task.progress) {
      task.progress(fmt::format("{}: fold {} of {}, {} trees{}", word(task.target), number + 1, task.folds,
                                round, curve.best_text()));
    }
    const bool all_finished = fold.finished && std::ranges::all_of(grown, [&](const GrownFold& earlier) {
                                return earlier.finished(round);
                              });
    if (!curve.checks(round, all_finished)) continue;
    collect_out_of_fold(fold, scores);
    std::vector<double>& own = next.checks[round];
    own = task.efficiency(scores, [&](std::size_t p) { return task.fold_of[p] == number; });
    std::vector<double> all = own;
    for (const GrownFold& earlier : grown) {
      const std::vector<double>& more = earlier.at(round);
      all.insert(all.end(), more.begin(), more.end());
    }
    curve.add(round, all_finished, std::move(all));
  }
  next.trees = fold.booster.text(fold.booster.iterations());
  return next;
}

/// Replaces the scores of a fold's validation rows by those of its first `rounds` trees.
void score_again(const Task& task, std::uint32_t number, const GrownFold& fold, int rounds,
                 std::vector<double>& scores) {
  const lightgbm::Booster booster(fold.trees);
  for (std::size_t p = 0; p < task.set.problems.size(); ++p) {
    if (task.fold_of[p] != number) continue;
    const auto of_problem = booster.predict(task.set.features_of(p), task.set.features, rounds);
    std::ranges::copy(of_problem, scores.begin() + task.set.first_row[p]);
  }
}

/// The rule that ends growth needs the efficiency of all folds at each check, and only the last fold to grow
/// knows that of the others. So each fold before grows longer than the folds so far would need. If that is
/// too short, all folds grow again, for longer.
CrossValidation grow_one_by_one(const Task& task) {
  for (int longer = 2;; longer *= 2) {
    std::vector<GrownFold> grown;
    std::vector<double> scores(task.set.row_count());
    int limit = task.parameters.rounds;
    std::optional<GrowthCurve> curve;
    while (grown.size() < task.folds) {
      const int patience = task.parameters.patience;
      const bool is_last = grown.size() + 1 == task.folds;
      curve.emplace(task.parameters, is_last || patience > INT_MAX / longer ? patience : longer * patience);
      grown.push_back(grow_next(task, grown, limit, *curve, scores));
      if (grown.back().finished_at == 0) limit = grown.back().rounds;
    }
    if (!curve->ended) continue;
    const int rounds = curve->result.rounds;
    for (std::uint32_t f = 0; f < task.folds; ++f) {
      if (grown[f].rounds != rounds && !grown[f].finished(rounds))
        score_again(task, f, grown[f], rounds, scores);
    }
    curve->result.out_of_fold = std::move(scores);
    return std::move(curve->result);
  }
}

}  // namespace

FoldGrowth growth_of(const TrainParameters& parameters, const TrainingSet& set) {
  if (parameters.growth != FoldGrowth::automatic) return parameters.growth;
  return set.row_count() * set.features > kTogetherValues ? FoldGrowth::one_by_one : FoldGrowth::together;
}

CrossValidation cross_validate(const TrainingSet& set, const lightgbm::Dataset& whole, const Schema& schema,
                               Target target, const std::vector<std::uint32_t>& fold_of,
                               const TrainParameters& parameters, const Progress& progress) {
  const Task task{set,
                  whole,
                  target,
                  fold_of,
                  parameters,
                  progress,
                  lightgbm_parameters(parameters, target, schema),
                  *std::ranges::max_element(fold_of) + 1};
  CrossValidation result =
      parameters.growth == FoldGrowth::one_by_one ? grow_one_by_one(task) : grow_together(task);
  const auto labels = labels_of(set, target);
  for (std::uint32_t f = 0; f < task.folds; ++f)
    result.folds.push_back(fold_metrics(set, f, target, labels, result.out_of_fold, fold_of));
  return result;
}

}  // namespace kscout
