#include "train/confidence.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <unordered_map>

#include "core/numbers.h"

namespace kscout {

namespace {

constexpr std::size_t kInputs = Confidence::inputs.size();
/// Strength of the ridge penalty on weights, in problems per standardised input.
constexpr double kRidge = 3;

// ----------------------------------------------------------------------------------------------------
// regression

/// Solves the symmetric positive definite system a x = b. `a` is row-major; both arguments are overwritten.
std::vector<double> solve(std::vector<double> a, std::vector<double> b) {
  const std::size_t n = b.size();
  for (std::size_t i = 0; i < n; ++i) {  // Cholesky: a = l l^T, in place
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = a[i * n + j];
      for (std::size_t k = 0; k < j; ++k) sum -= a[i * n + k] * a[j * n + k];
      a[i * n + j] = i == j ? std::sqrt(std::max(sum, 1e-300)) : sum / a[j * n + j];
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) b[i] -= a[i * n + k] * b[k];
    b[i] /= a[i * n + i];
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) b[i] -= a[k * n + i] * b[k];
    b[i] /= a[i * n + i];
  }
  return b;
}

/// ln of the odds = bias + weight * x.
struct Logit {
  double bias = 0;
  std::vector<double> weight;
};

/// Ridge logistic regression by Newton's method. `x`: rows of `width` values, `y`: 0 or 1.
Logit fit_logit(std::span<const double> x, std::size_t width, std::span<const double> y, double ridge) {
  constexpr int kMaxSteps = 50;
  const std::size_t n = width + 1;
  std::vector<double> w(n);
  for (int step = 0; step < kMaxSteps; ++step) {
    std::vector<double> gradient(n), hessian(n * n);
    for (std::size_t i = 1; i < n; ++i) {
      gradient[i] = ridge * w[i];
      hessian[i * n + i] = ridge;
    }
    hessian[0] = 1e-9;
    for (std::size_t r = 0; r < y.size(); ++r) {
      const auto at = [&](std::size_t i) { return i == 0 ? 1.0 : x[r * width + i - 1]; };
      double odds = 0;
      for (std::size_t i = 0; i < n; ++i) odds += w[i] * at(i);
      const double p = logistic(odds);
      for (std::size_t i = 0; i < n; ++i) {
        gradient[i] += (p - y[r]) * at(i);
        for (std::size_t j = 0; j <= i; ++j) hessian[i * n + j] += p * (1 - p) * at(i) * at(j);
      }
    }
    const auto change = solve(std::move(hessian), std::move(gradient));
    double largest = 0;
    for (std::size_t i = 0; i < n; ++i) {
      w[i] -= change[i];
      largest = std::max(largest, std::fabs(change[i]));
    }
    if (largest < 1e-10) break;
  }
  return {w[0], {w.begin() + 1, w.end()}};
}

/// The inputs of a regression besides the features of a choice.
struct Terms {
  std::size_t families = 1;             ///< of the model
  std::vector<std::size_t> own_bias{};  ///< families that get a bias of their own
  bool with_repeats = false;            ///< whether the number of samples of the best config is an input
};

double log_repeats(double repeats) { return std::log2(std::max(repeats, 1.0)); }

/// ln of the odds that a choice is right, as a function of the inputs.
struct InputLogit {
  double bias = 0;
  Confidence::Inputs weight{};
  double repeats_weight = 0;          ///< of log_repeats
  std::vector<double> family_bias{};  ///< per family, 0 for those without
  /// The value if the best config had been measured with this many samples.
  double at(const ObservedChoice& choice, double repeats) const {
    return std::inner_product(weight.begin(), weight.end(), choice.inputs.begin(),
                              bias + family_bias[choice.family] + repeats_weight * log_repeats(repeats));
  }
};

/// Standardises the values of some rows to mean 0 and deviation 1, so that the ridge penalty treats all
/// inputs alike. A constant input and its weight become 0.
class Standardised {
 public:
  /// `value(row, k)` for k below `width`.
  template <class Value>
  Standardised(std::span<const std::size_t> rows, std::size_t width, Value&& value)
      : mean_(width), scale_(width) {
    const auto count = static_cast<double>(rows.size());
    for (const std::size_t row : rows) {
      for (std::size_t k = 0; k < width; ++k) mean_[k] += value(row, k) / count;
    }
    for (const std::size_t row : rows) {
      for (std::size_t k = 0; k < width; ++k) {
        const double off = value(row, k) - mean_[k];
        scale_[k] += off * off / count;
      }
    }
    for (double& s : scale_) s = s > 1e-12 ? std::sqrt(s) : 0;
  }
  double operator()(double value, std::size_t k) const {
    return scale_[k] > 0 ? (value - mean_[k]) / scale_[k] : 0;
  }
  double mean(std::size_t k) const { return mean_[k]; }
  /// Converts a weight of a standardised value to one of the original value.
  double weight(double of_standardised, std::size_t k) const {
    return scale_[k] > 0 ? of_standardised / scale_[k] : 0;
  }

 private:
  std::vector<double> mean_, scale_;
};

/// Fits a regression to the choices for which `take` returns true. Biases of families are not standardised:
/// otherwise the penalty would be lowest for the rarest family.
template <class Take>
InputLogit fit_inputs(std::span<const ObservedChoice> choices, Take&& take, std::span<const double> right,
                      const Terms& terms) {
  std::vector<std::size_t> rows;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (take(i)) rows.push_back(i);
  }
  const std::size_t width = kInputs + terms.with_repeats;
  const auto value = [&](std::size_t row, std::size_t k) {
    return k < kInputs ? choices[row].inputs[k] : log_repeats(choices[row].reference_repeats);
  };
  const Standardised standardised(rows, width, value);
  std::vector<double> x, y;
  for (const std::size_t i : rows) {
    y.push_back(right[i]);
    for (std::size_t k = 0; k < width; ++k) x.push_back(standardised(value(i, k), k));
    for (const std::size_t family : terms.own_bias) x.push_back(choices[i].family == family);
  }
  const Logit logit = fit_logit(x, width + terms.own_bias.size(), y, kRidge);
  InputLogit fit{.bias = logit.bias, .family_bias = std::vector<double>(terms.families)};
  const auto weight = [&](std::size_t k) {
    const double as_it_stands = standardised.weight(logit.weight[k], k);
    fit.bias -= as_it_stands * standardised.mean(k);
    return as_it_stands;
  };
  for (std::size_t k = 0; k < kInputs; ++k) fit.weight[k] = weight(k);
  if (terms.with_repeats) fit.repeats_weight = weight(kInputs);
  for (std::size_t i = 0; i < terms.own_bias.size(); ++i) {
    fit.family_bias[terms.own_bias[i]] = logit.weight[width + i];
  }
  return fit;
}

double log_loss(std::span<const double> claimed, std::span<const double> right) {
  double sum = 0;
  for (std::size_t i = 0; i < right.size(); ++i) {
    const double p = std::clamp(claimed[i], 1e-12, 1 - 1e-12);
    sum -= right[i] != 0 ? std::log(p) : std::log(1 - p);
  }
  return sum / static_cast<double>(right.size());
}

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// ----------------------------------------------------------------------------------------------------
// claims

/// The number of samples (reference_repeats) that the best-measured 5 % of the choices have at least.
double max_repeats(std::span<const ObservedChoice> choices) {
  std::vector<double> repeats;
  for (const ObservedChoice& choice : choices) repeats.push_back(choice.reference_repeats);
  return quantile(std::move(repeats), 0.95);
}

/// The claimed probabilities, and their quality on sizes that they were not fitted to.
struct Claims {
  Confidence confidence;        ///< the fitted model; sizes and floor are set later
  std::vector<double> as_seen;  ///< out-of-fold probability that the choice is right, given its samples
  std::vector<double> claimed;  ///< the same if the best config had as many samples as the claims assume
  double log_loss = 0;          ///< of as_seen
  double repeats_weight = 0;    ///< of log_repeats, in the logarithm of the odds
};

Claims fit_claims(std::span<const ObservedChoice> choices, std::span<const double> right, const Terms& terms,
                  double repeats) {
  // A regression is overconfident on the choices that it was fitted to. Its out-of-fold predictions give the
  // right scale (Platt scaling).
  const std::uint32_t folds = std::ranges::max(choices, {}, &ObservedChoice::fold).fold + 1;
  std::vector<double> as_seen(choices.size()), claimed(choices.size());
  for (std::uint32_t fold = 0; fold < folds; ++fold) {
    const InputLogit logit = fit_inputs(
        choices, [&](std::size_t i) { return choices[i].fold != fold; }, right, terms);
    for (std::size_t i = 0; i < choices.size(); ++i) {
      if (choices[i].fold != fold) continue;
      as_seen[i] = logit.at(choices[i], choices[i].reference_repeats);
      claimed[i] = logit.at(choices[i], repeats);
    }
  }
  Logit platt = fit_logit(as_seen, 1, right, 1e-6);
  if (!(platt.weight[0] > 0)) {  // the features say nothing about unseen sizes: claim the overall rate
    const double rate = mean_of(right);
    platt = {std::log(rate / (1 - rate)), {0}};
  }
  const double slope = platt.weight[0];
  Claims claims;
  for (const double odds : as_seen) claims.as_seen.push_back(logistic(platt.bias + slope * odds));
  for (const double odds : claimed) claims.claimed.push_back(logistic(platt.bias + slope * odds));
  claims.log_loss = log_loss(claims.as_seen, right);

  const InputLogit all = fit_inputs(
      choices, [](std::size_t) { return true; }, right, terms);
  claims.repeats_weight = slope * all.repeats_weight;
  claims.confidence.bias = platt.bias + slope * all.bias + claims.repeats_weight * log_repeats(repeats);
  for (std::size_t k = 0; k < kInputs; ++k) claims.confidence.weight[k] = slope * all.weight[k];
  if (terms.own_bias.empty()) return claims;
  for (const double bias : all.family_bias) claims.confidence.family_bias.push_back(slope * bias);
  return claims;
}

std::vector<std::size_t> count_by_family(std::span<const ObservedChoice> choices, std::size_t families) {
  std::vector<std::size_t> count(families);
  for (const ObservedChoice& choice : choices) ++count.at(choice.family);
  return count;
}

/// Fits four variants: with and without a bias for each family that has enough choices, and with and without
/// the number of samples. Returns the variant with the least log loss out of fold. Where the number of
/// samples is an input, claims are for `repeats` samples.
Claims best_claims(std::span<const ObservedChoice> choices, std::span<const double> right,
                   std::size_t families, double repeats) {
  const std::vector<std::size_t> count = count_by_family(choices, families);
  std::vector<Terms> candidates{{.families = families}};
  Terms told_apart{.families = families};
  for (std::size_t family = 0; family < families; ++family) {
    if (count[family] >= kMinChoices) told_apart.own_bias.push_back(family);
  }
  if (told_apart.own_bias.size() >= 2) candidates.push_back(told_apart);
  if (std::ranges::none_of(choices, [](const ObservedChoice& c) { return c.reference_repeats == 0; })) {
    for (std::size_t i = 0, plain = candidates.size(); i < plain; ++i) {
      candidates.push_back(candidates[i]);
      candidates.back().with_repeats = true;
    }
  }
  std::optional<Claims> best;
  for (const Terms& terms : candidates) {
    Claims claims = fit_claims(choices, right, terms, repeats);
    // A negative weight of the number of samples would be chance: more samples do not make choices fail.
    if (terms.with_repeats && claims.repeats_weight <= 0) continue;
    if (!best || claims.log_loss < best->log_loss) best = std::move(claims);
  }
  return *std::move(best);
}

std::vector<ConfidenceFit::OfFamily> by_family(std::span<const ObservedChoice> choices,
                                               std::span<const double> right, const Claims& claims,
                                               std::size_t families) {
  std::vector<ConfidenceFit::OfFamily> of(families);
  for (std::size_t i = 0; i < choices.size(); ++i) {
    ConfidenceFit::OfFamily& family = of[choices[i].family];
    ++family.choices;
    family.within_rate += right[i];
    family.as_seen += claims.as_seen[i];
    family.claimed += claims.claimed[i];
  }
  for (ConfidenceFit::OfFamily& family : of) {
    const auto count = static_cast<double>(family.choices);
    for (double* sum : {&family.within_rate, &family.as_seen, &family.claimed}) *sum /= count;
  }
  return of;
}

// ----------------------------------------------------------------------------------------------------
// choices

/// A problem's best rows by prediction, best first, and the pick's row.
struct Predicted {
  std::size_t pick;
  std::vector<double> log_tflops;
};

Predicted predicted_best(const TrainingSet& set, std::size_t problem, const TargetForest& target,
                         const std::vector<double>& scores) {
  const double sign = target.target == Target::latency ? -1 : 1;
  std::vector<std::size_t> rows(set.first_row[problem + 1] - set.first_row[problem]);
  std::iota(rows.begin(), rows.end(), std::size_t{set.first_row[problem]});
  std::ranges::stable_sort(rows, std::ranges::greater{}, [&](std::size_t r) { return sign * scores[r]; });
  Predicted best{rows.front(), {}};
  const double top_score = sign * scores[rows.front()];
  for (const std::size_t r : rows) {
    if (best.log_tflops.size() == Confidence::top) break;
    best.log_tflops.push_back(
        target.slope * claimed_log_tflops(target.target, sign * scores[r], top_score, set.problems[problem]));
  }
  return best;
}

/// Median samples of the problem's rows within 3 % of its best.
double reference_repeats(const TrainingSet& set, std::size_t problem) {
  std::vector<double> repeats;
  for (std::size_t r = set.first_row[problem]; r < set.first_row[problem + 1]; ++r) {
    const TrainingSet::Row& row = set.rows[r];
    if (!row.pruned_early && row.tflops * (1 + Confidence::within) >= set.best_tflops[problem])
      repeats.push_back(row.repeats);
  }
  return quantile(std::move(repeats), 0.5);
}

}  // namespace

std::vector<ObservedChoice> observed_choices(const TrainingSet& set, const TargetForest& target,
                                             const std::vector<double>& out_of_fold,
                                             const std::vector<std::uint32_t>& fold_of,
                                             std::span<const Family> families) {
  std::vector<ObservedChoice> choices;
  for (std::size_t position = 0; position < families.size(); ++position) {
    const Family& family = families[position];
    for (std::size_t p = 0; p < set.problems.size(); ++p) {
      if (signature_of(set.problems[p]) != family.signature) continue;
      const Predicted predicted = predicted_best(set, p, target, out_of_fold);
      if (predicted.log_tflops.size() < 2) continue;
      ObservedChoice choice;
      choice.family = position;
      choice.inputs = confidence_inputs(set.problems[p], predicted.log_tflops);
      choice.efficiency = std::min(set.rows[predicted.pick].tflops / set.best_tflops[p], 1.0);
      choice.fold = fold_of[p];
      choice.reference_repeats = reference_repeats(set, p);
      choices.push_back(choice);
    }
  }
  return choices;
}

std::vector<ObservedChoice> precisely_measured(std::span<const ObservedChoice> choices) {
  const double least = max_repeats(choices) / 2;
  std::vector<ObservedChoice> evaluated;
  std::ranges::copy_if(choices, std::back_inserter(evaluated), [least](const ObservedChoice& choice) {
    return choice.reference_repeats == 0 || choice.reference_repeats >= least;
  });
  if (evaluated.size() < kMinChoices) return {choices.begin(), choices.end()};
  return evaluated;
}

std::optional<ConfidenceFit> fit_confidence(std::span<const ObservedChoice> observed, std::size_t families) {
  if (observed.size() < kMinChoices) return std::nullopt;
  const std::vector<ObservedChoice> choices = precisely_measured(observed);
  ConfidenceFit fit;
  std::vector<double> right;
  const auto count = static_cast<double>(choices.size());
  for (const ObservedChoice& choice : choices) {
    right.push_back(choice.efficiency >= 1 / (1 + Confidence::within));
    fit.efficiency += choice.efficiency / count;
  }
  fit.within_rate = mean_of(right);
  if (fit.within_rate == 0 || fit.within_rate == 1) return std::nullopt;

  const double repeats = max_repeats(observed);
  Claims claims = best_claims(choices, right, families, repeats);
  fit.families = by_family(choices, right, claims, families);
  fit.confidence = std::move(claims.confidence);
  fit.as_seen = std::move(claims.as_seen);
  fit.claimed = std::move(claims.claimed);
  fit.log_loss = claims.log_loss;
  if (claims.repeats_weight > 0) fit.claimed_for_repeats = repeats;
  fit.log_loss_of_rate = log_loss(std::vector<double>(right.size(), fit.within_rate), right);
  for (std::size_t i = 0; i < Confidence::sizes; ++i) {
    const auto size = [&](const ObservedChoice& c) { return c.inputs[Confidence::first_size + i]; };
    const auto [least, most] = std::ranges::minmax_element(observed, {}, size);
    fit.confidence.low[i] = size(*least);
    fit.confidence.high[i] = size(*most);
  }
  return fit;
}

}  // namespace kscout
