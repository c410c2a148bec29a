#include "evaluate/static_configs.h"

#include <algorithm>
#include <numeric>

#include "core/fail.h"
#include "dataset/operations.h"

namespace kscout {

namespace {

/// Efficiency of every config on the problems that have an oracle; 0 when unmeasured or failed.
struct EfficiencyMatrix {
  std::vector<std::vector<double>> lines;  ///< one per problem, one entry per config
  std::vector<double> calls;               ///< of each problem; they add up to 1

  explicit EfficiencyMatrix(const MeasurementTable& table) {
    const auto rows = counted_rows(table);
    for (std::size_t p = 0; p < rows.size(); ++p) {
      const auto oracle = oracle_of(rows[p]);
      if (!oracle) continue;
      auto& line = lines.emplace_back(table.configs.size(), 0.0);
      calls.push_back(table.problems[p].weight());
      for (const CountedRow& row : rows[p])
        line[row.config] = share_of_oracle(row.measured, oracle->measured);
    }
    const double all = std::accumulate(calls.begin(), calls.end(), 0.0);
    for (double& share : calls) share /= all;
  }
};

/// What the configs chosen so far reach on each problem.
class Cover {
 public:
  explicit Cover(const EfficiencyMatrix& matrix) : matrix_(matrix), reached_(matrix.lines.size(), 0.0) {}

  void add(std::size_t config) {
    for (std::size_t p = 0; p < reached_.size(); ++p)
      reached_[p] = std::max(reached_[p], matrix_.lines[p][config]);
  }
  /// What the config would add to the mean share reached over problems and, times `by_calls`, to that over
  /// calls; shares are counted up to `enough`.
  double gain(std::size_t config, double by_calls, double enough) const {
    const double each = 1 / static_cast<double>(reached_.size());
    double sum = 0;
    for (std::size_t p = 0; p < reached_.size(); ++p) {
      const double more = std::min(enough, matrix_.lines[p][config]) - std::min(enough, reached_[p]);
      if (more > 0) sum += (each + by_calls * matrix_.calls[p]) * more;
    }
    return sum;
  }
  double mean() const {
    return std::accumulate(reached_.begin(), reached_.end(), 0.0) / static_cast<double>(reached_.size());
  }
  double mean_of_calls() const {
    return std::inner_product(reached_.begin(), reached_.end(), matrix_.calls.begin(), 0.0);
  }
  double least() const { return std::ranges::min(reached_); }

 private:
  const EfficiencyMatrix& matrix_;
  std::vector<double> reached_;
};

/// The unused config that gains most; the first of equals.
std::size_t best_to_add(const Cover& cover, const std::vector<bool>& used, double by_calls = 0,
                        double enough = 1) {
  std::size_t best = used.size();
  double most = -1;
  for (std::size_t c = 0; c < used.size(); ++c) {
    if (used[c]) continue;
    if (const double gain = cover.gain(c, by_calls, enough); gain > most) {
      most = gain;
      best = c;
    }
  }
  return best;
}

void check_share(double share, std::string_view name) {
  if (!(share >= 0 && share <= 1))
    fail(Errc::invalid_argument, "{} = {}: expected a share from 0 to 1", name, share);
}

}  // namespace

std::vector<KernelConfig> best_statics(const MeasurementTable& training, std::size_t count) {
  const EfficiencyMatrix matrix(training);
  Cover cover(matrix);
  std::vector<bool> used(training.configs.size());
  std::vector<KernelConfig> chosen;
  while (chosen.size() < std::min(count, used.size())) {
    const std::size_t best = best_to_add(cover, used);
    cover.add(best);
    used[best] = true;
    chosen.push_back(training.configs[best]);
  }
  return chosen;
}

KernelConfig best_static(const MeasurementTable& training) {
  const auto chosen = best_statics(training, 1);
  if (chosen.empty()) fail(Errc::invalid_argument, "no config to choose from: the training data are empty");
  return chosen.front();
}

PrunedConfigs prune(const MeasurementTable& table, const PruneRequest& request) {
  check_share(request.keep, "keep");
  check_share(request.keep_each, "keep each");
  const EfficiencyMatrix matrix(table);
  if (matrix.lines.empty())
    fail(Errc::invalid_argument, "no problem has a config that ended well: there is nothing to keep");

  std::vector<bool> used(table.configs.size());
  for (const KernelConfig& config : request.given) {
    const auto at = std::ranges::find(table.configs, config);
    if (at != table.configs.end()) used[static_cast<std::size_t>(at - table.configs.begin())] = true;
  }
  std::vector<std::size_t> added;
  const auto cover_without = [&](std::size_t left_out) {
    Cover cover(matrix);
    for (std::size_t c = 0; c < used.size(); ++c) {
      if (used[c] && c != left_out) cover.add(c);
    }
    return cover;
  };
  constexpr double kRounding = 1e-12;  // of the sums behind the means
  const auto means_kept = [&](const Cover& cover) {
    return std::min(cover.mean(), cover.mean_of_calls()) >= request.keep - kRounding;
  };
  const auto enough = [&](const Cover& cover) {
    return means_kept(cover) && cover.least() >= request.keep_each;
  };

  Cover cover = cover_without(used.size());
  while (!enough(cover)) {
    const std::size_t best = best_to_add(cover, used, 1, means_kept(cover) ? request.keep_each : 1);
    if (best == used.size()) break;  // all are in
    cover.add(best);
    used[best] = true;
    added.push_back(best);
  }
  // The first ones were taken for what later ones do as well.
  for (const std::size_t config : std::vector(added)) {
    if (!enough(cover_without(config))) continue;
    used[config] = false;
    std::erase(added, config);
  }
  std::ranges::sort(added);
  const Cover kept = cover_without(used.size());
  PrunedConfigs out{.configs = {},
                    .mean = kept.mean(),
                    .mean_of_calls = kept.mean_of_calls(),
                    .least = kept.least(),
                    .problems = matrix.lines.size(),
                    .candidates = table.configs.size()};
  for (const std::size_t config : added) out.configs.push_back(table.configs[config]);
  return out;
}

}  // namespace kscout
