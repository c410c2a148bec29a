
#include "evaluate/baselines.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include <kscout/provider.h>

#include "core/fail.h"
#include "dataset/columns.h"
#include "dataset/operations.h"
#include "family/listed.h"
#include "features/schema.h"

namespace kscout {

namespace {

/// The problems that have an oracle and that `take` holds for, by position.
class OracleProblems {
 public:
  struct Of {
    std::size_t problem;
    Measurement oracle;
    double calls;  ///< share of all calls
  };

  template <class F>
  OracleProblems(const CompactTable& table, const F& take) : table_(table) {
    double all = 0;
    for (std::size_t p = 0; p < table.problems.size(); ++p) {
      if (!take(p)) continue;
      const auto oracle = oracle_of(table.final_rows(p));
      if (!oracle) continue;
      of_.push_back({p, oracle->measured, table.problems[p].weight()});
      all += of_.back().calls;
    }
    for (Of& one : of_) one.calls /= all;
  }

  const CompactTable& table() const noexcept { return table_; }
  const std::vector<Of>& all() const noexcept { return of_; }

 private:
  const CompactTable& table_;
  std::vector<Of> of_;
};

/// The best efficiency of the configs chosen so far, per problem; unmeasured and failed count as 0.
class Cover {
 public:
  explicit Cover(const OracleProblems& problems) : problems_(problems), reached_(problems.all().size()) {}

  void add(std::uint32_t config) {
    for (std::size_t i = 0; i < reached_.size(); ++i) {
      const auto& of = problems_.all()[i];
      if (const auto row = problems_.table().final_row(of.problem, config))
        reached_[i] = std::max(reached_[i], share_of_oracle(*row, of.oracle));
    }
  }
  /// Each config's gain in the mean efficiency over problems plus, times `by_calls`, its gain in the mean
  /// over calls. Efficiencies above `enough` count as `enough`.
  std::vector<double> gains(double by_calls, double enough) const {
    const double each = 1 / static_cast<double>(reached_.size());
    std::vector<double> gains(problems_.table().configs.size());
    for (std::size_t i = 0; i < reached_.size(); ++i) {
      const auto& of = problems_.all()[i];
      const double weight = each + by_calls * of.calls;
      problems_.table().for_each_final(of.problem, [&](std::uint32_t config, const Measurement& measured) {
        const double more =
            std::min(enough, share_of_oracle(measured, of.oracle)) - std::min(enough, reached_[i]);
        if (more > 0) gains[config] += weight * more;
      });
    }
    return gains;
  }
  double mean() const {
    return std::accumulate(reached_.begin(), reached_.end(), 0.0) / static_cast<double>(reached_.size());
  }
  double mean_of_calls() const {
    double mean = 0;
    for (std::size_t i = 0; i < reached_.size(); ++i) mean += reached_[i] * problems_.all()[i].calls;
    return mean;
  }
  double least() const { return std::ranges::min(reached_); }

 private:
  const OracleProblems& problems_;
  std::vector<double> reached_;
};

/// The unused config with the highest gain; the first of equal ones.
std::uint32_t best_to_add(const Cover& cover, const std::vector<bool>& used, double by_calls = 0,
                          double enough = 1) {
  const std::vector<double> gains = cover.gains(by_calls, enough);
  auto best = static_cast<std::uint32_t>(used.size());
  double most = -1;
  for (std::uint32_t c = 0; c < used.size(); ++c) {
    if (!used[c] && gains[c] > most) {
      most = gains[c];
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

namespace {

bool every_problem(std::size_t) { return true; }

template <class F>
std::vector<KernelConfig> best_statics_where(const CompactTable& training, std::size_t count, const F& take) {
  const OracleProblems problems(training, take);
  Cover cover(problems);
  std::vector<bool> used(training.configs.size());
  std::vector<KernelConfig> chosen;
  while (chosen.size() < std::min(count, used.size())) {
    const std::uint32_t best = best_to_add(cover, used);
    cover.add(best);
    used[best] = true;
    chosen.push_back(training.configs[best]);
  }
  return chosen;
}

}  // namespace

std::vector<KernelConfig> best_statics(const CompactTable& training, std::size_t count) {
  return best_statics_where(training, count, every_problem);
}

KernelConfig best_static(const CompactTable& training) {
  const auto chosen = best_statics(training, 1);
  if (chosen.empty()) fail(Errc::invalid_argument, "no config to choose from: the training data are empty");
  return chosen.front();
}

PrunedConfigs prune(const CompactTable& table, const PruneRequest& request) {
  check_share(request.keep, "keep");
  check_share(request.keep_each, "keep each");
  const OracleProblems problems(table, every_problem);
  if (problems.all().empty())
    fail(Errc::invalid_argument, "no problem has a config with status ok: there is nothing to keep");

  std::vector<bool> used(table.configs.size());
  for (const KernelConfig& config : request.given) {
    const auto at = std::ranges::find(table.configs, config);
    if (at != table.configs.end()) used[static_cast<std::size_t>(at - table.configs.begin())] = true;
  }
  std::vector<std::uint32_t> added;
  const auto cover_without = [&](std::size_t left_out) {
    Cover cover(problems);
    for (std::uint32_t c = 0; c < used.size(); ++c) {
      if (used[c] && c != left_out) cover.add(c);
    }
    return cover;
  };
  constexpr double kRounding = 1e-12;  // rounding error of the sums behind the means
  const auto means_kept = [&](const Cover& cover) {
    return std::min(cover.mean(), cover.mean_of_calls()) >= request.keep - kRounding;
  };
  const auto enough = [&](const Cover& cover) {
    return means_kept(cover) && cover.least() >= request.keep_each;
  };

  Cover cover = cover_without(used.size());
  while (!enough(cover)) {
    const std::uint32_t best = best_to_add(cover, used, 1, means_kept(cover) ? request.keep_each : 1);
    if (best == used.size()) break;  // all configs are chosen
    cover.add(best);
    used[best] = true;
    added.push_back(best);
  }
  // Later configs may have made earlier ones superfluous.
  for (const std::uint32_t config : std::vector(added)) {
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
                    .problems = problems.all().size(),
                    .candidates = table.configs.size()};
  for (const std::uint32_t config : added) out.configs.push_back(table.configs[config]);
  return out;
}

namespace {

constexpr std::uint32_t kFolds = 5;
constexpr std::size_t kMaxStatic = 8;

/// The fold of each problem: all layouts of one size share it.
std::vector<std::uint32_t> folds_of(const CompactTable& table) {
  std::vector<std::uint32_t> folds;
  for (const Problem& p : table.problems) {
    std::uint64_t hash = 0;
    for (const auto size : sizes_of(p)) hash = mix_hash(hash, static_cast<std::uint64_t>(size));
    folds.push_back(static_cast<std::uint32_t>(hash % kFolds));
  }
  return folds;
}

/// Scores that rank the returned configs first (in their order) for each problem, before all others.
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

/// Fixed configs for each problem: chosen on `training`, or on the folds that the problem is not in.
class StaticBaselines {
 public:
  StaticBaselines(const CompactTable& table, const std::optional<CompactTable>& training) {
    if (training) {
      lists_.push_back(best_statics(*training, kMaxStatic));
      return;
    }
    const auto folds = folds_of(table);
    for (std::size_t p = 0; p < folds.size(); ++p) fold_.emplace(table.problems[p], folds[p]);
    for (std::uint32_t fold = 0; fold < kFolds; ++fold) {
      lists_.push_back(
          best_statics_where(table, kMaxStatic, [&](std::size_t p) { return folds[p] != fold; }));
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
    return list.empty() ? std::string() : config_text(list.front());
  }

  std::vector<std::vector<KernelConfig>> lists_;
  std::unordered_map<Problem, std::uint32_t> fold_;
};

/// A pool of exactly the first `count` fixed configs: no other config may be picked, measured or not.
PoolOf fixed_pool(const StaticBaselines& statics, std::size_t count) {
  return [&statics, count](const CompactTable& table, std::size_t problem) {
    auto list = statics.of(table.problems[problem]);
    list.resize(std::min(list.size(), count));
    return list;
  };
}

/// A baseline with the results of its choices.
Baseline make_baseline(std::string name, std::string note, const Evaluation& evaluation) {
  Baseline baseline{std::move(name), std::move(note), evaluation.overall};
  for (const ProblemResult& result : evaluation.results)
    baseline.efficiency.emplace(result.problem, result.efficiency());
  return baseline;
}

/// Expected efficiency of a uniformly random config of the pool.
Baseline random_baseline(const CompactTable& table, const PoolOf& pool) {
  Evaluation expected;
  for (std::size_t p = 0; p < table.problems.size(); ++p) {
    const std::vector<FinalRow> rows = table.final_rows(p);
    const auto oracle = oracle_of(rows);
    if (!oracle) continue;
    const auto configs = pool(table, p);
    const std::unordered_set<KernelConfig> members(configs.begin(), configs.end());
    double sum = 0;
    std::size_t hits = 0;
    for (const FinalRow& row : rows) {
      if (!members.contains(table.configs[row.config])) continue;
      sum += share_of_oracle(row.measured, oracle->measured);
      ++hits;
    }
    ProblemResult& result = expected.results.emplace_back();
    result.problem = table.problems[p];
    result.picks.resize(1);
    result.picks.front().unmeasured = hits == 0;
    result.top.fill(configs.empty() ? 0.0 : sum / static_cast<double>(configs.size()));
  }
  std::vector<const ProblemResult*> all;
  for (const auto& result : expected.results) all.push_back(&result);
  expected.overall = summarise(all);
  Baseline baseline = make_baseline("random", "expected value", expected);
  Summary& summary = baseline.summary;
  // A random choice has no known pick and no top-k; only the efficiency is defined.
  summary.top_mean.fill(Measurement::unknown);
  summary.hit_rate.fill(Measurement::unknown);
  summary.top_mean[0] = summary.mean;
  summary.ndcg = Measurement::unknown;
  return baseline;
}

/// Ranks configs by measured speed: the best possible choice.
Scorer oracle_scorer(const CompactTable& table) {
  std::unordered_map<Problem, std::size_t> positions;
  for (std::size_t p = 0; p < table.problems.size(); ++p) positions.emplace(table.problems[p], p);
  return [&table, positions = std::move(positions)](const Problem& problem,
                                                    std::span<const KernelConfig> configs) {
    std::unordered_map<KernelConfig, double> speed;
    table.for_each_final(positions.at(problem), [&](std::uint32_t config, const Measurement& measured) {
      if (measured.status == Status::ok) speed.emplace(table.configs[config], -measured.time_us);
    });
    Scores scores;
    for (const KernelConfig& config : configs) {
      const auto at = speed.find(config);
      scores.score.push_back(at == speed.end() ? -1e300 : at->second);
    }
    return scores;
  };
}

}  // namespace

CompactTable with_first_suggestion(const CompactTable& table) {
  std::unordered_set<Problem> with;
  for (std::size_t p = 0; p < table.problems.size(); ++p) {
    table.for_each_final(p, [&](std::uint32_t config, const Measurement&) {
      if (is_first_suggestion(table.configs[config])) with.insert(table.problems[p]);
    });
  }
  return table.of_problems([&](const Problem& problem) { return with.contains(problem); });
}

Evaluation first_suggestion(const CompactTable& with_rows) {
  const Scorer scorer = [](const Problem&, std::span<const KernelConfig> configs) {
    Scores scores;
    for (const KernelConfig& config : configs) scores.score.push_back(is_first_suggestion(config) ? 1 : 0);
    return scores;
  };
  return evaluate(with_rows, scorer, measured_pool);
}

Scorer analytic_scorer(const CompactTable& table) {
  const std::string_view of = table.configs.front().space->provider;
  const SchemaData& costs = analytic_schema(table.problems.front().op(), of).data();
  if (!costs.provider.empty() && costs.provider != of) return {};
  return [device = table.device](const Problem& problem, std::span<const KernelConfig> configs) {
    Scores scores;
    if (configs.empty()) return scores;
    const Provider& names = provider(configs.front().space->provider);
    ConfigTable scored(*configs.front().space);
    std::vector<Traits> traits;
    for (const KernelConfig& config : configs) {
      scored.push_back(config);
      traits.push_back(names.traits(signature_of(problem), config, device));
    }
    scores.score.resize(configs.size());
    analytic_schema(problem.op(), names.name()).evaluate(problem, device, scored, traits, scores.score);
    for (double& score : scores.score) score = std::isnan(score) ? -1e300 : -score;
    return scores;
  };
}

Evaluation evaluate_best_static(const CompactTable& table, const std::optional<CompactTable>& training) {
  const StaticBaselines statics(table, training);
  return evaluate(table, favour([&](const Problem& p) -> const auto& { return statics.of(p); }),
                  fixed_pool(statics, 1));
}

std::vector<Baseline> baselines(const CompactTable& table, const PoolOf& pool,
                                const std::optional<CompactTable>& training, const Scorer& analytic) {
  const StaticBaselines statics(table, training);
  const Scorer in_order = favour([&](const Problem& p) -> const auto& { return statics.of(p); });
  std::vector<Baseline> lines;
  if (const CompactTable with = with_first_suggestion(table); with.row_count() > 0) {
    lines.push_back(make_baseline("first suggestion",
                                  fmt::format("the library's own, {} problems", with.problems.size()),
                                  first_suggestion(with)));
    const PoolOf eight = [](const CompactTable& of, std::size_t problem) {
      auto configs = measured_pool(of, problem);
      std::erase_if(configs, [](const KernelConfig& config) {
        const std::int32_t place = suggestion_place(config);
        return place < 1 || place > 8;
      });
      return configs;
    };
    lines.push_back(make_baseline("best of 8 suggestions", "the fastest of the library's first eight",
                                  evaluate(with, oracle_scorer(with), eight)));
  }
  lines.push_back(
      make_baseline("best static", statics.note(), evaluate(table, in_order, fixed_pool(statics, 1))));
  for (const std::size_t count : {std::size_t{3}, kMaxStatic}) {
    lines.push_back(make_baseline(fmt::format("best {} static", count), "the best of them on each problem",
                                  evaluate(table, oracle_scorer(table), fixed_pool(statics, count))));
  }
  if (analytic)
    lines.push_back(make_baseline("analytic model", "no measurement used", evaluate(table, analytic, pool)));
  lines.push_back(random_baseline(table, pool));
  lines.push_back(
      make_baseline("oracle", "fastest measured", evaluate(table, oracle_scorer(table), measured_pool)));
  return lines;
}

}  // namespace kscout
