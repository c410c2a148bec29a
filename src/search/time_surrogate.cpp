#include "search/time_surrogate.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/fail.h"
#include "core/numbers.h"

namespace kscout {

namespace {

// Chosen by replay over the training tables in data/: docs/bench/search.md.
constexpr double kLength = 1.2;    // distance over which configs resemble each other; one axis spans 1
constexpr double kNoise = 0.01;    // variance of a time over that of the residuals
constexpr double kDeviations = 2;  // of optimism, in standard deviations
// Max ln of time over the best: differences among slower configs say little.
constexpr double kWorst = 1.5;
constexpr double kSpread = 0.3;     // standard deviation of residuals before any was measured ...
constexpr double kSpreadCount = 3;  // ... which weighs as much as this many residuals

constexpr std::size_t kMaxLearnt = 512;
constexpr std::size_t kMaxNumbers = std::size_t{1} << 24;  // size limit of projected_

}  // namespace

TimeSurrogate::TimeSurrogate(const SearchSpace& space, std::span<const double> expected_us)
    : space_(space),
      most_(std::min(kMaxLearnt, kMaxNumbers / space.size())),
      expected_(space.size(), 0.0),
      variance_(space.size(), 1.0) {
  if (expected_us.empty()) return;
  if (expected_us.size() != space.size()) {
    fail(Errc::invalid_argument, "{} expected times for {} configs", expected_us.size(), space.size());
  }
  std::vector<double> known;
  for (const double us : expected_us) {
    if (std::isfinite(us) && us > 0) known.push_back(std::log(us));
  }
  const double middle = known.empty() ? 0 : quantile(known, 0.5);
  for (std::size_t i = 0; i < expected_.size(); ++i) {
    const bool is_known = std::isfinite(expected_us[i]) && expected_us[i] > 0;
    expected_[i] = is_known ? std::log(expected_us[i]) : middle;
  }
}

double TimeSurrogate::similarity(std::uint32_t a, std::uint32_t b) const noexcept {
  const auto p = space_.point(a), q = space_.point(b);
  const double costs = expected_[a] - expected_[b];
  double square = costs * costs;
  for (std::size_t axis = 0; axis < p.size(); ++axis) {
    if (p[axis] == q[axis]) continue;
    const double steps = static_cast<double>(p[axis]) - static_cast<double>(q[axis]);
    const double distance = space_.ordered(axis) ? steps / static_cast<double>(space_.values(axis) - 1) : 1;
    square += distance * distance;
  }
  return std::exp(-square / (2 * kLength * kLength));
}

std::vector<double> TimeSurrogate::solve(std::vector<double> right) const {
  for (std::size_t i = 0; i < right.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) right[i] -= factor_[i][j] * right[j];
    right[i] /= factor_[i][i];
  }
  return right;
}

void TimeSurrogate::learn(std::uint32_t config, double time_us) {
  if (learnt() >= most_) return;
  const std::size_t size = space_.size(), count = learnt();
  std::vector<double> row(count + 1);
  double diagonal = 1 + kNoise;
  for (std::size_t i = 0; i < count; ++i) {
    row[i] = projected_[i * size + config];
    diagonal -= row[i] * row[i];
  }
  row[count] = std::sqrt(std::max(diagonal, 1e-9));
  std::vector<double> added(size);
  for (std::uint32_t c = 0; c < size; ++c) added[c] = similarity(config, c);
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t c = 0; c < size; ++c) added[c] -= row[i] * projected_[i * size + c];
  }
  for (std::size_t c = 0; c < size; ++c) {
    added[c] /= row[count];
    variance_[c] = std::max(variance_[c] - added[c] * added[c], 0.0);
  }
  projected_.insert(projected_.end(), added.begin(), added.end());
  factor_.push_back(std::move(row));
  configs_.push_back(config);
  logs_.push_back(std::log(time_us));
}

std::vector<double> TimeSurrogate::optimistic() const {
  if (learnt() == 0) return expected_;
  const double worst = *std::ranges::min_element(logs_) + kWorst;
  std::vector<double> residuals(learnt());
  for (std::size_t i = 0; i < learnt(); ++i)
    residuals[i] = std::min(logs_[i], worst) - expected_[configs_[i]];
  // The offset between measured and expected times, by generalised least squares.
  const std::vector<double> ones = solve(std::vector<double>(learnt(), 1.0));
  std::vector<double> left = solve(std::move(residuals));
  double weight = 0, level = 0;
  for (std::size_t i = 0; i < learnt(); ++i) {
    weight += ones[i] * ones[i];
    level += ones[i] * left[i];
  }
  level /= weight;
  double squares = 0;
  for (std::size_t i = 0; i < learnt(); ++i) {
    left[i] -= level * ones[i];
    squares += left[i] * left[i];
  }
  const double spread =
      (squares + kSpreadCount * kSpread * kSpread) / (static_cast<double>(learnt()) + kSpreadCount);
  std::vector<double> values(expected_);
  for (std::size_t i = 0; i < learnt(); ++i) {
    for (std::size_t c = 0; c < values.size(); ++c) values[c] += left[i] * projected_[i * values.size() + c];
  }
  for (std::size_t c = 0; c < values.size(); ++c)
    values[c] += level - kDeviations * std::sqrt(spread * variance_[c]);
  return values;
}

}  // namespace kscout
