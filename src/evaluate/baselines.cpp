#include "evaluate/baselines.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include <kscout/provider.h>

#include "core/fail.h"
#include "dataset/operations.h"
#include "evaluate/static_configs.h"
#include "features/schema.h"

namespace kscout {

namespace {

constexpr std::uint32_t kFolds = 5;
constexpr std::size_t kMostStatic = 8;

/// The part of a table whose problems satisfy `keep`; configs stay.
template <class F>
MeasurementTable part_of(const MeasurementTable& table, F&& keep) {
  MeasurementTable part = table;
  std::erase_if(part.rows, [&](const auto& row) { return !keep(row.problem); });
  return part;
}

/// The fold of each problem: all layouts of one size share it.
std::vector<std::uint32_t> folds_of(const MeasurementTable& table) {
  std::vector<std::uint32_t> folds;
  for (const Problem& p : table.problems) {
    std::uint64_t hash = 0;
    for (const auto size : sizes_of(p)) hash = mix_hash(hash, static_cast<std::uint64_t>(size));
    folds.push_back(static_cast<std::uint32_t>(hash % kFolds));
  }
  return folds;
}

/// Scores that rank the given configs first (in their order) for each problem; others follow.
Scorer favour(std::function<const std::vector<KernelConfig>&(const Problem&)> favoured) {
  return [favoured = std::move(favoured)](const Problem& problem, std::span<const KernelConfig> configs) {
    const auto& list = favoured(problem);
    Scores scores;
    for (const KernelConfig& config : configs) {
      const auto at = std::ranges::find(list, config);
      scores.score.push_back(-static_cast<double>(at - list.begin()));
    }
    return scores;
  };
}

/// Fixed configs per problem: from `training`, or from the folds that the problem is not in.
class Statics {
 public:
  Statics(const MeasurementTable& table, const std::optional<MeasurementTable>& training) {
    if (training) {
      lists_.push_back(best_statics(*training, kMostStatic));
      return;
    }
    const auto folds = folds_of(table);
    for (std::size_t p = 0; p < folds.size(); ++p) fold_.emplace(table.problems[p], folds[p]);
    for (std::uint32_t fold = 0; fold < kFolds; ++fold) {
      lists_.push_back(
          best_statics(part_of(table, [&](std::uint32_t p) { return folds[p] != fold; }), kMostStatic));
    }
  }
  const std::vector<KernelConfig>& of(const Problem& problem) const {
    return lists_[fold_.empty() ? 0 : fold_.at(problem)];
  }
  std::string note() const {
    return fold_.empty() ? "chosen on the training data: " + config_name(lists_.front())
                         : "chosen on the other four folds of this data";
  }

 private:
  static std::string config_name(const std::vector<KernelConfig>& list) {
    std::string text;
    if (list.empty()) return text;
    const KernelConfig& config = list.front();
    for (std::size_t i = 0; i < config.space->axes.size(); ++i) {
      text += (i ? "," : "") + axis_value_text(config.space->axes[i], config[i]);
    }
    return text;
  }

  std::vector<std::vector<KernelConfig>> lists_;
  std::unordered_map<Problem, std::uint32_t> fold_;
};

/// A pool that holds exactly the first `count` fixed configs: measured or not, nothing else may be picked.
PoolOf fixed_pool(const MeasurementTable& table, const Statics& statics, std::size_t count) {
  return [&table, &statics, count](std::size_t problem) {
    auto list = statics.of(table.problems[problem]);
    list.resize(std::min(list.size(), count));
    return list;
  };
}

/// Expected efficiency of a uniform draw from the pool, per problem, as results.
Summary random_summary(const MeasurementTable& table, const PoolOf& pool) {
  const auto rows = counted_rows(table);
  std::vector<ProblemResult> results;
  for (std::size_t p = 0; p < rows.size(); ++p) {
    const auto oracle = oracle_of(rows[p]);
    if (!oracle) continue;
    const auto configs = pool(p);
    const std::unordered_set<KernelConfig> members(configs.begin(), configs.end());
    double sum = 0;
    std::size_t hits = 0;
    for (const CountedRow& row : rows[p]) {
      if (!members.contains(table.configs[row.config])) continue;
      sum += share_of_oracle(row.measured, oracle->measured);
      ++hits;
    }
    ProblemResult& result = results.emplace_back();
    result.problem = table.problems[p];
    result.picks.resize(1);
    result.picks.front().unmeasured = hits == 0;
    result.top.fill(configs.empty() ? 0.0 : sum / static_cast<double>(configs.size()));
  }
  std::vector<const ProblemResult*> all;
  for (const auto& result : results) all.push_back(&result);
  Summary summary = summarise(all);
  // One draw is expected, not k of them, and no pick is known: only the efficiency means something.
  summary.top_mean.fill(Measurement::unknown);
  summary.hit_rate.fill(Measurement::unknown);
  summary.top_mean[0] = summary.mean;
  summary.ndcg = Measurement::unknown;
  return summary;
}

/// Ranks by what was measured: the best that any choice can do.
Scorer oracle_scorer(const MeasurementTable& table) {
  std::unordered_map<Problem, std::unordered_map<KernelConfig, double>> speed;
  const auto rows = counted_rows(table);
  for (std::size_t p = 0; p < rows.size(); ++p) {
    for (const CountedRow& row : rows[p]) {
      if (row.measured.status == Status::ok) {
        speed[table.problems[p]].emplace(table.configs[row.config], -row.measured.time_us);
      }
    }
  }
  return [speed = std::move(speed)](const Problem& problem, std::span<const KernelConfig> configs) {
    const auto& of_problem = speed.at(problem);
    Scores scores;
    for (const KernelConfig& config : configs) {
      const auto at = of_problem.find(config);
      scores.score.push_back(at == of_problem.end() ? -1e300 : at->second);
    }
    return scores;
  };
}

}  // namespace

Scorer analytic_scorer(const Device& device) {
  return [device](const Problem& problem, std::span<const KernelConfig> configs) {
    Scores scores;
    if (configs.empty()) return scores;
    const Provider& names = provider(configs.front().space->provider);
    ConfigTable table(*configs.front().space);
    std::vector<Traits> traits;
    for (const KernelConfig& config : configs) {
      table.push_back(config);
      traits.push_back(names.traits(signature_of(problem), config, device));
    }
    scores.score.resize(configs.size());
    analytic_schema(problem.op()).evaluate(problem, device, table, traits, scores.score);
    for (double& score : scores.score) score = std::isnan(score) ? -1e300 : -score;
    return scores;
  };
}

std::vector<Baseline> baselines(const MeasurementTable& table, const PoolOf& pool,
                                const std::optional<MeasurementTable>& training, const Scorer& analytic) {
  const Statics statics(table, training);
  const Scorer in_order = favour([&](const Problem& p) -> const auto& { return statics.of(p); });
  std::vector<Baseline> lines;
  lines.push_back(
      {"best static", statics.note(), evaluate(table, in_order, fixed_pool(table, statics, 1)).overall});
  for (const std::size_t count : {std::size_t{3}, kMostStatic}) {
    lines.push_back({fmt::format("best {} static", count), "the best of them on each problem",
                     evaluate(table, oracle_scorer(table), fixed_pool(table, statics, count)).overall});
  }
  if (analytic) {
    lines.push_back({"analytic model", "no measurement used", evaluate(table, analytic, pool).overall});
  }
  lines.push_back({"random", "expected value", random_summary(table, pool)});
  lines.push_back(
      {"oracle", "fastest measured", evaluate(table, oracle_scorer(table), measured_pool(table)).overall});
  return lines;
}

}  // namespace kscout
