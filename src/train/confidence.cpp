#include "train/confidence.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>

#include "core/numbers.h"

namespace kscout {

namespace {

/// A constant 1, the gaps, and the distance outside the trained region.
constexpr std::size_t kWeights = Confidence::first_size + 2, kOutside = kWeights - 1;
using Row = std::array<double, kWeights>;

/// What the penalty pulls the weights to, and how strongly, in problems per standardised input. Choices
/// inside the region cannot show how the odds fall outside: the slope per octave is that of a whole
/// distribution that was left out (docs/bench/confidence_h200.md), and the penalty keeps it.
constexpr Row kPrior = {0, 0, 0, 0, -0.85}, kPenalty = {0, 3, 3, 3, 1e9};

/// Solves the symmetric positive definite system a x = b by elimination.
Row solve(std::array<Row, kWeights> a, Row b) {
  for (std::size_t i = 0; i < kWeights; ++i) {
    for (std::size_t j = i + 1; j < kWeights; ++j) {
      const double factor = a[j][i] / a[i][i];
      for (std::size_t k = i; k < kWeights; ++k) a[j][k] -= factor * a[i][k];
      b[j] -= factor * b[i];
    }
  }
  for (std::size_t i = kWeights; i-- > 0;) {
    for (std::size_t k = i + 1; k < kWeights; ++k) b[i] -= a[i][k] * b[k];
    b[i] /= a[i][i];
  }
  return b;
}

/// Weights of a logistic regression with an L2 penalty, by Newton's method. A row begins with 1.
Row fit_logit(std::span<const Row> rows, std::span<const double> right) {
  constexpr int kMaxSteps = 50;
  Row w = kPrior;
  for (int step = 0; step < kMaxSteps; ++step) {
    Row gradient{};
    std::array<Row, kWeights> hessian{};
    hessian[0][0] = 1e-9;
    for (std::size_t i = 1; i < kWeights; ++i) {
      gradient[i] = kPenalty[i] * (w[i] - kPrior[i]);
      hessian[i][i] = kPenalty[i];
    }
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const double p = logistic(std::inner_product(w.begin(), w.end(), rows[r].begin(), 0.0));
      for (std::size_t i = 0; i < kWeights; ++i) {
        gradient[i] += (p - right[r]) * rows[r][i];
        for (std::size_t j = 0; j < kWeights; ++j) hessian[i][j] += p * (1 - p) * rows[r][i] * rows[r][j];
      }
    }
    const Row change = solve(hessian, gradient);
    for (std::size_t i = 0; i < kWeights; ++i) w[i] -= change[i];
    if (std::ranges::all_of(change, [](double c) { return std::fabs(c) < 1e-10; })) break;
  }
  return w;
}

/// Fits the choices outside a fold. Gaps are standardised for the fit, so that the penalty treats all alike;
/// a constant gap gets weight 0.
Confidence fit_without(std::span<const ObservedChoice> choices, std::span<const double> all_right,
                       std::optional<std::uint32_t> fold) {
  std::vector<Row> rows;
  std::vector<double> right;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (choices[i].fold == fold) continue;
    right.push_back(all_right[i]);
    const Confidence::Inputs& x = choices[i].inputs;
    rows.push_back({1, x[0], x[1], x[2], x.back()});
  }
  const auto count = static_cast<double>(rows.size());
  Row mean{}, scale{};
  for (std::size_t k = 1; k < kOutside; ++k) {
    for (const Row& row : rows) mean[k] += row[k] / count;
    for (const Row& row : rows) scale[k] += (row[k] - mean[k]) * (row[k] - mean[k]) / count;
    scale[k] = scale[k] > 1e-12 ? std::sqrt(scale[k]) : 0;
    for (Row& row : rows) row[k] = scale[k] > 0 ? (row[k] - mean[k]) / scale[k] : 0;
  }
  const Row w = fit_logit(rows, right);
  Confidence confidence;
  confidence.bias = w[0];
  confidence.weight.back() = w[kOutside];
  for (std::size_t k = 1; k < kOutside; ++k) {
    confidence.weight[k - 1] = scale[k] > 0 ? w[k] / scale[k] : 0;
    confidence.bias -= confidence.weight[k - 1] * mean[k];
  }
  return confidence;
}

double log_loss(std::span<const double> claimed, std::span<const double> right) {
  double sum = 0;
  for (std::size_t i = 0; i < right.size(); ++i)
    sum -= std::log(std::max(right[i] != 0 ? claimed[i] : 1 - claimed[i], 1e-12));
  return sum / static_cast<double>(right.size());
}

/// A problem's best rows by prediction, best first, and the pick's row.
struct Predicted {
  std::size_t pick;
  std::vector<double> log_tflops;
};

Predicted predicted_best(const TrainingSet& set, std::size_t problem, const ModelTarget& target,
                         const std::vector<double>& scores) {
  const double sign = target.target == Target::latency ? -1 : 1;
  std::vector<std::size_t> rows(set.first_row[problem + 1] - set.first_row[problem]);
  std::iota(rows.begin(), rows.end(), std::size_t{set.first_row[problem]});
  std::ranges::stable_sort(rows, std::ranges::greater{}, [&](std::size_t r) { return sign * scores[r]; });
  Predicted best{rows.front(), {}};
  const double top_score = sign * scores[rows.front()];
  for (const std::size_t r : rows) {
    if (best.log_tflops.size() == Confidence::top) break;
    best.log_tflops.push_back(target.slope *
                              claimed_log_tflops(target, sign * scores[r], top_score, set.problems[problem]));
  }
  return best;
}

/// Median samples of the problem's rows within 3 % of its best.
double reference_repeats(const TrainingSet& set, std::size_t problem) {
  std::vector<double> repeats;
  for (std::size_t r = set.first_row[problem]; r < set.first_row[problem + 1]; ++r) {
    const TrainingSet::Row& row = set.rows[r];
    if (!row.pruned_early && set.tflops(problem, r) * (1 + Confidence::within) >= set.best_tflops[problem])
      repeats.push_back(row.repeats);
  }
  return quantile(std::move(repeats), 0.5);
}

}  // namespace

std::vector<ObservedChoice> observed_choices(const TrainingSet& set, const ModelTarget& target,
                                             const std::vector<double>& out_of_fold,
                                             const std::vector<std::uint32_t>& fold_of,
                                             std::span<const Family> families) {
  std::vector<Region> without;  // of each fold
  for (std::uint32_t fold = 0; fold <= std::ranges::max(fold_of); ++fold)
    without.push_back(fit_region(set, families, [&](std::size_t p) { return fold_of[p] != fold; }));
  std::vector<ObservedChoice> choices;
  for (std::size_t f = 0; f < families.size(); ++f) {
    for (std::size_t p = 0; p < set.problems.size(); ++p) {
      if (signature_of(set.problems[p]) != families[f].signature) continue;
      const Predicted predicted = predicted_best(set, p, target, out_of_fold);
      if (predicted.log_tflops.size() < 2) continue;
      const double octaves = without[fold_of[p]].distance(f, set.problems[p]);
      choices.push_back({.inputs = confidence_inputs(set.problems[p], predicted.log_tflops, octaves),
                         .efficiency = std::min(set.tflops(p, predicted.pick) / set.best_tflops[p], 1.0),
                         .fold = fold_of[p],
                         .reference_repeats = reference_repeats(set, p)});
    }
  }
  return choices;
}

std::vector<ObservedChoice> precisely_measured(std::span<const ObservedChoice> choices) {
  std::vector<double> repeats;
  for (const ObservedChoice& choice : choices) repeats.push_back(choice.reference_repeats);
  const double least = quantile(std::move(repeats), 0.95) / 2;
  std::vector<ObservedChoice> precise;
  std::ranges::copy_if(choices, std::back_inserter(precise), [least](const ObservedChoice& choice) {
    return choice.reference_repeats == 0 || choice.reference_repeats >= least;
  });
  return precise.size() < kMinChoices ? std::vector(choices.begin(), choices.end()) : precise;
}

std::optional<ConfidenceFit> fit_confidence(std::span<const ObservedChoice> observed) {
  if (observed.size() < kMinChoices) return std::nullopt;
  const std::vector<ObservedChoice> choices = precisely_measured(observed);
  ConfidenceFit fit;
  std::vector<double> right;
  const auto count = static_cast<double>(choices.size());
  for (const ObservedChoice& choice : choices) {
    right.push_back(choice.efficiency >= 1 / (1 + Confidence::within));
    fit.within_rate += right.back() / count;
    fit.efficiency += choice.efficiency / count;
  }
  if (std::ranges::min(right) == std::ranges::max(right)) return std::nullopt;
  fit.confidence = fit_without(choices, right, std::nullopt);
  fit.out_of_fold.resize(choices.size());
  for (std::uint32_t fold = 0; fold <= std::ranges::max(choices, {}, &ObservedChoice::fold).fold; ++fold) {
    const Confidence others = fit_without(choices, right, fold);
    for (std::size_t i = 0; i < choices.size(); ++i) {
      const auto& x = choices[i].inputs;
      if (choices[i].fold == fold)
        fit.out_of_fold[i] =
            logistic(std::inner_product(x.begin(), x.end(), others.weight.begin(), others.bias));
    }
  }
  fit.log_loss = log_loss(fit.out_of_fold, right);
  fit.log_loss_of_rate = log_loss(std::vector(right.size(), fit.within_rate), right);
  return fit;
}

}  // namespace kscout
