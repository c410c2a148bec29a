#include "select/confidence.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/fail.h"
#include "select/model.h"

namespace kscout {

double logistic(double x) noexcept { return 1 / (1 + std::exp(-x)); }

Confidence::Inputs confidence_inputs(ProblemRef problem, std::span<const double> log_tflops) noexcept {
  const auto gap_to = [&](std::size_t place) {
    const double gap = log_tflops[0] - log_tflops[std::min(place, log_tflops.size()) - 1];
    return std::log(std::max(gap, 0.0) + Confidence::min_gap);
  };
  const auto size = [](std::int64_t s) {
    return std::log2(static_cast<double>(std::max<std::int64_t>(s, 1)));
  };
  const ImplicitGemm product = product_of(problem);
  return {gap_to(2),       gap_to(3),       gap_to(Confidence::top), size(product.m),
          size(product.n), size(product.k), size(product.groups)};
}

double Confidence::probability(std::size_t family, ProblemRef problem,
                               std::span<const double> log_tflops) const noexcept {
  if (log_tflops.size() < 2) return 1;
  const Inputs x = confidence_inputs(problem, log_tflops);
  double log_odds = bias_of(family), octaves_beyond = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    double value = x[i];
    if (i >= first_size) {
      value = std::clamp(x[i], low[i - first_size], high[i - first_size]);
      octaves_beyond += std::fabs(x[i] - value);
    }
    log_odds += weight[i] * value;
  }
  return logistic(log_odds) * std::exp2(-octaves_beyond);
}

void check(const Confidence& c, std::size_t families) {
  bool finite = std::isfinite(c.bias);
  for (const double weight : c.weight) finite = finite && std::isfinite(weight);
  if (!finite) fail(Errc::invalid_argument, "confidence: a weight is not finite");
  if (!c.family_bias.empty() && c.family_bias.size() != families) {
    fail(Errc::invalid_argument, "confidence: {} family biases for {} families; one each, or none",
         c.family_bias.size(), families);
  }
  for (std::size_t i = 0; i < c.family_bias.size(); ++i) {
    if (!std::isfinite(c.bias_of(i))) {
      fail(Errc::invalid_argument, "confidence: bias {} + {} of family {} is not finite", c.bias,
           c.family_bias[i], i);
    }
  }
  for (std::size_t i = 0; i < Confidence::sizes; ++i) {
    if (!std::isfinite(c.low[i]) || !std::isfinite(c.high[i]) || c.low[i] > c.high[i]) {
      fail(Errc::invalid_argument, "confidence: sizes {} were trained from 2^{} to 2^{}",
           Confidence::inputs[Confidence::first_size + i], c.low[i], c.high[i]);
    }
  }
}

double Model::confidence(const Family& family, ProblemRef problem, Target target,
                         std::span<const double> tflops) const noexcept {
  const auto& calibrated = data().confidence;
  if (!calibrated || tflops.empty() || target != default_target()) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  std::array<double, Confidence::top> log_tflops{};
  const std::size_t count = std::min(tflops.size(), log_tflops.size());
  for (std::size_t i = 0; i < count; ++i) log_tflops[i] = std::log(tflops[i]);
  return calibrated->probability(position(family), problem, std::span(log_tflops).first(count));
}

}  // namespace kscout
