#include "select/confidence.h"

#include <algorithm>
#include <cmath>

namespace kscout {

double logistic(double x) noexcept { return 1 / (1 + std::exp(-x)); }

Confidence::Inputs confidence_inputs(ProblemRef problem, std::span<const double> log_tflops,
                                     double octaves) noexcept {
  const auto gap_to = [&](std::size_t place) {
    const double gap = log_tflops[0] - log_tflops[std::min(place, log_tflops.size()) - 1];
    return std::log(std::max(gap, 0.0) + Confidence::min_gap);
  };
  const auto size = [](std::int64_t s) {
    return std::log2(static_cast<double>(std::max<std::int64_t>(s, 1)));
  };
  const ImplicitGemm product = product_of(problem);
  return {
      gap_to(2),       gap_to(3),       gap_to(Confidence::top), size(product.m),
      size(product.n), size(product.k), size(product.groups),    std::max(octaves - Confidence::inside, 0.0)};
}

double Confidence::probability(std::size_t family, ProblemRef problem, std::span<const double> log_tflops,
                               double octaves) const noexcept {
  if (log_tflops.size() < 2) return 1;
  const Inputs x = confidence_inputs(problem, log_tflops, octaves);
  double log_odds = bias_of(family), octaves_beyond = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    double value = x[i];
    if (i >= first_size && i < first_size + sizes) {
      value = std::clamp(x[i], low[i - first_size], high[i - first_size]);
      octaves_beyond += std::fabs(x[i] - value);
    }
    log_odds += weight[i] * value;
  }
  return logistic(log_odds) * std::exp2(-octaves_beyond);
}

std::string_view confidence_level(double probability) noexcept {
  constexpr double kMedium = 0.6, kHigh = 0.8;
  if (std::isnan(probability)) return "unknown";
  return probability >= kHigh ? "high" : probability >= kMedium ? "medium" : "low";
}

}  // namespace kscout
