#include "train/labels.h"

#include <algorithm>
#include <cmath>

namespace kscout {

namespace {

double relative_of(const TrainingSet& set, std::size_t problem, const TrainingSet::Row& row) {
  return std::clamp(row.tflops / set.best_tflops[problem], 0.0, 1.0);
}

double label_of(const TrainingSet& set, Target target, std::size_t problem, const TrainingSet::Row& row) {
  const double relative = relative_of(set, problem, row) * (row.handicapped ? 1 - set.handicap : 1);
  switch (target) {
    case Target::tflops:
      return std::log1p(row.tflops);
    case Target::latency: {
      const double best_us = time_us_of(set.problems[problem], set.best_tflops[problem]);
      return std::log1p(row.tflops > 0 ? row.time_us : best_us / kLeastRelative);
    }
    case Target::bandwidth:
      return row.tflops > 0 ? std::log1p(least_bytes(set.problems[problem]) / row.time_us * 1e-3) : 0;
    case Target::relative:
      return std::log(std::max(relative, kLeastRelative));
    case Target::rank:
      return std::round(kMostRank * relative * relative);
  }
  return 0;
}

}  // namespace

std::vector<float> labels_of(const TrainingSet& set, Target target) {
  std::vector<float> labels(set.row_count());
  for (std::size_t p = 0; p < set.problems.size(); ++p) {
    for (std::size_t r = set.first_row[p]; r < set.first_row[p + 1]; ++r) {
      labels[r] = static_cast<float>(label_of(set, target, p, set.rows[r]));
    }
  }
  return labels;
}

std::vector<float> weights_of(const TrainingSet& set, double near_best_weight) {
  std::vector<float> weights(set.row_count());
  for (std::size_t p = 0; p < set.problems.size(); ++p) {
    for (std::size_t r = set.first_row[p]; r < set.first_row[p + 1]; ++r) {
      const double relative = relative_of(set, p, set.rows[r]);
      weights[r] = static_cast<float>(1 + near_best_weight * std::pow(relative, 4));
    }
  }
  return weights;
}

std::string objective_of(Target target) { return target == Target::rank ? "lambdarank" : "regression"; }

}  // namespace kscout
