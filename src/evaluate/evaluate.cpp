
#include "evaluate/evaluate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <unordered_map>

#include <fmt/format.h>

#include "core/fail.h"
#include "core/numbers.h"
#include "dataset/columns.h"
#include "dataset/operations.h"
#include "op/operation.h"
#include "op/problem_sets.h"
#include "select/confidence.h"

namespace kscout {

bool Reliability::Bin::holds() const noexcept {
  return !checked() || std::fabs(claimed - observed) <= tolerance;
}

bool Reliability::holds() const noexcept {
  return std::ranges::all_of(bins, [](const Bin& bin) { return bin.holds(); });
}

bool Reliability::checked() const noexcept {
  return std::ranges::any_of(bins, [](const Bin& bin) { return bin.checked(); });
}

Reliability reliability(std::span<const Claim> claims) {
  Reliability r;
  std::array<double, 10> variance{};
  for (const Claim& claim : claims) {
    const double p = claim.probability;
    if (!(p >= 0 && p <= 1)) continue;
    const std::size_t at = std::min<std::size_t>(static_cast<std::size_t>(p * 10), r.bins.size() - 1);
    ++r.claims;
    ++r.bins[at].claims;
    r.bins[at].claimed += p;
    r.bins[at].observed += claim.right;
    variance[at] += p * (1 - p);
    r.claimed += p;
    r.observed += claim.right;
    r.brier += (p - claim.right) * (p - claim.right);
  }
  for (std::size_t i = 0; i < r.bins.size(); ++i) {
    Reliability::Bin& bin = r.bins[i];
    if (bin.claims == 0) continue;
    const auto count = static_cast<double>(bin.claims);
    bin.claimed /= count;
    bin.observed /= count;
    bin.standard_error = std::sqrt(variance[i]) / count;
  }
  if (r.claims > 0) {
    const auto count = static_cast<double>(r.claims);
    r.brier /= count;
    r.claimed /= count;
    r.observed /= count;
    r.standard_error = std::sqrt(std::accumulate(variance.begin(), variance.end(), 0.0)) / count;
  }
  return r;
}

namespace {

/// The rows of one problem by config.
using RowsByConfig = std::unordered_map<KernelConfig, Measurement>;

/// Positions by falling score; equal scores keep their order; configs that cannot run are left out.
std::vector<std::size_t> ranking(const std::vector<double>& score) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < score.size(); ++i) {
    if (score[i] > -std::numeric_limits<double>::infinity()) order.push_back(i);
  }
  std::ranges::stable_sort(order, std::greater<>{}, [&](std::size_t i) { return score[i]; });
  return order;
}

double discounted_gain(std::span<const double> relevance) {
  double gain = 0;
  for (std::size_t i = 0; i < relevance.size(); ++i)
    gain += relevance[i] / std::log2(static_cast<double>(i) + 2);
  return gain;
}

PickedConfig make_pick(const KernelConfig& config, const RowsByConfig& rows, const Measurement& oracle) {
  PickedConfig pick;
  pick.config = config;
  const auto row = rows.find(config);
  pick.unmeasured = row == rows.end();
  if (!pick.unmeasured) {
    pick.measured = row->second;
    pick.efficiency = share_of_oracle(pick.measured, oracle);
    pick.coarse = measured_less_precisely(pick.measured, oracle);
  }
  return pick;
}

void check_scores(const Scores& scores, std::size_t configs, const Problem& problem) {
  if (scores.score.size() != configs || (!scores.tflops.empty() && scores.tflops.size() != configs)) {
    fail(Errc::invalid_argument, "{}: {} scores and {} speeds for {} configs", print(problem),
         scores.score.size(), scores.tflops.size(), configs);
  }
  for (const double score : scores.score) {
    if (std::isnan(score)) fail(Errc::invalid_argument, "{}: a score is NaN", print(problem));
  }
}

ProblemResult pick_result(const Problem& problem, const KernelConfig& oracle_config,
                          const Measurement& oracle, std::span<const KernelConfig> pool, const Scores& scores,
                          const RowsByConfig& rows) {
  ProblemResult result;
  result.problem = problem;
  result.oracle = oracle_config;
  result.oracle_measured = oracle;
  result.confidence = scores.confidence;
  for (const KernelConfig& config : pool) {
    if (const auto row = rows.find(config); row != rows.end())
      result.pool_best = std::max(result.pool_best, share_of_oracle(row->second, oracle));
  }
  const auto order = ranking(scores.score);
  result.pool = order.size();
  for (std::size_t i = 0; i < std::min(order.size(), kTop.back()); ++i) {
    result.picks.push_back(make_pick(pool[order[i]], rows, oracle));
    if (!scores.tflops.empty()) result.picks.back().predicted_tflops = scores.tflops[order[i]];
  }
  std::vector<double> relevance, ideal;
  for (const PickedConfig& pick : result.picks) relevance.push_back(pick.efficiency);
  for (const auto& [config, measured] : rows) ideal.push_back(share_of_oracle(measured, oracle));
  std::ranges::sort(ideal, std::greater<>{});
  ideal.resize(std::min(ideal.size(), kTop.back()));
  result.ndcg = discounted_gain(relevance) / discounted_gain(ideal);
  for (std::size_t t = 0; t < kTop.size(); ++t) {
    for (std::size_t i = 0; i < std::min(kTop[t], result.picks.size()); ++i) {
      result.top[t] = std::max(result.top[t], result.picks[i].efficiency);
      result.hit[t] = result.hit[t] || result.picks[i].config == oracle_config;
    }
  }
  if (!result.picks.empty()) {
    const PickedConfig& pick = result.picks.front();
    if (!pick.unmeasured && was_timed(pick.measured)) {
      result.regret_us = pick.measured.time_us - oracle.time_us;
      const auto faster = [&](const auto& row) {
        return was_timed(row.second) && row.second.time_us < pick.measured.time_us;
      };
      result.pick_place = 1 + static_cast<std::size_t>(std::ranges::count_if(rows, faster));
      result.tie =
          !result.hit[0] && pick.measured.status == Status::ok && within_noise(pick.measured, oracle);
    }
  }
  return result;
}

/// The axis that names the kind of kernel.
const Axis* kind_axis(const ConfigSpace& space) {
  for (const std::string_view name : {"kind", "pipeline"}) {
    const auto found = std::ranges::find(space.axes, name, &Axis::name);
    if (found != space.axes.end()) return &*found;
  }
  return nullptr;
}

/// The slices that a result belongs to: (by, value), by ascending position.
std::vector<std::pair<std::string, std::string>> slices_of(const ProblemResult& result) {
  const ImplicitGemm product = product_of(result.problem);
  std::vector<std::pair<std::string, std::string>> slices;
  const Operation& of = operation(result.problem.op());
  if (!of.kind_name.empty()) slices.emplace_back(of.kind_name, of.kind_of(result.problem));
  slices.emplace_back(kSizeSlice, word(size_class(result.problem)));
  slices.emplace_back("shape family", word(shape_family(product)));
  slices.emplace_back("depth regime", word(depth_regime(product)));
  slices.emplace_back("outline", word(outline(product)));
  slices.emplace_back("layout", word(signature_of(result.problem).layout));
  if (const Axis* axis = kind_axis(*result.oracle.space)) {
    slices.emplace_back(fmt::format("oracle's {}", axis->name),
                        axis_value_text(*axis, result.oracle[axis->name]));
  }
  return slices;
}

Reliability reliability_of(std::span<const ProblemResult* const> results) {
  std::vector<Claim> claims;
  for (const ProblemResult* result : results) claims.push_back({result->confidence, result->within_claim()});
  return reliability(claims);
}

std::vector<Slice> make_slices(const std::vector<ProblemResult>& results) {
  std::map<std::pair<std::size_t, std::string>, std::vector<const ProblemResult*>> members;
  std::map<std::size_t, std::string> names;
  for (const ProblemResult& result : results) {
    const auto slices = slices_of(result);
    for (std::size_t i = 0; i < slices.size(); ++i) {
      names[i] = slices[i].first;
      members[{i, slices[i].second}].push_back(&result);
    }
  }
  std::vector<Slice> slices;
  for (const auto& [key, of_slice] : members)
    slices.push_back({names[key.first], key.second, summarise(of_slice), reliability_of(of_slice)});
  return slices;
}

struct SpeedPair {
  double predicted, measured;
};

Calibration calibrate(const std::vector<SpeedPair>& pairs) {
  Calibration c;
  c.rows = pairs.size();
  if (pairs.empty()) return c;
  const auto count = static_cast<double>(pairs.size());
  double sum = 0;
  for (const auto& [predicted, measured] : pairs) sum += measured;
  double square_error = 0, variance = 0;
  std::map<int, std::vector<SpeedPair>> decades;
  for (const SpeedPair& pair : pairs) {
    const double error = pair.predicted - pair.measured;
    square_error += error * error;
    variance += (pair.measured - sum / count) * (pair.measured - sum / count);
    c.mae += std::fabs(error) / count;
    c.mape += std::fabs(error) / pair.measured / count;
    decades[static_cast<int>(std::floor(std::log10(pair.measured)))].push_back(pair);
  }
  c.r2 = 1 - square_error / std::max(variance, 1e-10);
  c.rmse = std::sqrt(square_error / count);
  for (const auto& [power, members] : decades) {
    std::vector<double> ratios;
    double mape = 0;
    for (const auto& [predicted, measured] : members) {
      ratios.push_back(predicted / measured);
      mape += std::fabs(predicted - measured) / measured / static_cast<double>(members.size());
    }
    c.decades.push_back({std::pow(10.0, power), members.size(), mape, quantile(std::move(ratios), 0.5)});
  }
  return c;
}

}  // namespace

namespace {

std::vector<KernelConfig> pool_of_rows(const CompactTable& table, std::size_t problem, bool refused) {
  std::vector<KernelConfig> configs;
  table.for_each_final(problem, [&](std::uint32_t config, const Measurement& measured) {
    if (measured.status != Status::left_out && (refused || measured.status != Status::unsupported))
      configs.push_back(table.configs[config]);
  });
  return configs;
}

}  // namespace

std::vector<KernelConfig> measured_pool(const CompactTable& table, std::size_t problem) {
  return pool_of_rows(table, problem, true);
}
std::vector<KernelConfig> accepted_pool(const CompactTable& table, std::size_t problem) {
  return pool_of_rows(table, problem, false);
}

bool ProblemResult::within_claim() const noexcept {
  return efficiency() > 0 && efficiency() >= pool_best / (1 + Confidence::within);
}

Summary summarise(std::span<const ProblemResult* const> results) {
  Summary s;
  s.problems = results.size();
  if (results.empty()) return s;
  const auto count = static_cast<double>(results.size());
  std::vector<double> efficiencies, regrets;  // usable picks have a regret
  double weights = 0;
  for (const ProblemResult* result : results) {
    const double efficiency = result->efficiency();
    efficiencies.push_back(efficiency);
    s.mean += efficiency / count;
    s.weighted_mean += result->problem.weight() * efficiency;
    weights += result->problem.weight();
    s.ndcg += result->ndcg / count;
    s.pool_best += result->pool_best / count;
    for (std::size_t t = 0; t < kTop.size(); ++t) {
      s.top_mean[t] += result->top[t] / count;
      s.hit_rate[t] += result->hit[t] / count;
    }
    s.ties += result->tie;
    const bool unmeasured = result->picks.empty() || result->picks.front().unmeasured;
    s.unmeasured += unmeasured;
    const bool coarse = !result->picks.empty() && result->picks.front().coarse;
    s.coarse += coarse;
    if (!coarse) s.mean_without_coarse += efficiency;
    s.failed += !unmeasured && efficiency == 0;
    if (efficiency == 0) continue;
    regrets.push_back(1 / efficiency - 1);
    s.within_2 += (regrets.back() <= 0.02) / count;
    s.within_5 += (regrets.back() <= 0.05) / count;
  }
  s.mean_without_coarse /= static_cast<double>(s.problems - s.coarse);  // NaN where all are coarse
  s.weighted_mean = weights > 0 ? s.weighted_mean / weights : s.mean;
  s.p90 = quantile(efficiencies, 0.9);
  s.p50 = quantile(efficiencies, 0.5);
  s.p10 = quantile(efficiencies, 0.1);
  s.p1 = quantile(efficiencies, 0.01);
  s.min = quantile(efficiencies, 0);
  s.max = quantile(efficiencies, 1);
  if (!regrets.empty()) {
    s.regret_mean =
        std::accumulate(regrets.begin(), regrets.end(), 0.0) / static_cast<double>(regrets.size());
    s.regret_p50 = quantile(regrets, 0.5);
    s.regret_p95 = quantile(regrets, 0.95);
    s.regret_max = quantile(regrets, 1);
  }
  return s;
}

Evaluation evaluate(const CompactTable& table, const Scorer& scorer, const PoolOf& pool_of) {
  Evaluation evaluation;
  std::vector<SpeedPair> speeds;
  for (std::size_t p = 0; p < table.problems.size(); ++p) {
    const std::vector<FinalRow> rows = table.final_rows(p);
    const auto oracle = oracle_of(rows);
    if (!oracle) {
      ++evaluation.without_oracle;
      continue;
    }
    const Problem& problem = table.problems[p];
    RowsByConfig by_config;
    by_config.reserve(rows.size());
    for (const FinalRow& row : rows) by_config.emplace(table.configs[row.config], row.measured);
    const auto pool = pool_of(table, p);
    const Scores scores = scorer(problem, pool);
    check_scores(scores, pool.size(), problem);
    evaluation.results.push_back(
        pick_result(problem, table.configs[oracle->config], oracle->measured, pool, scores, by_config));
    for (std::size_t i = 0; i < scores.tflops.size(); ++i) {
      const auto row = by_config.find(pool[i]);
      if (row == by_config.end() || row->second.status != Status::ok) continue;
      const double measured = tflops_of(problem, row->second);
      if (measured > 0 && std::isfinite(scores.tflops[i])) speeds.push_back({scores.tflops[i], measured});
    }
  }
  if (evaluation.results.empty()) {
    fail(Errc::invalid_argument, "nothing to evaluate: none of {} problems has a row with status ok",
         table.problems.size());
  }
  std::vector<const ProblemResult*> all;
  for (const ProblemResult& result : evaluation.results) all.push_back(&result);
  evaluation.overall = summarise(all);
  evaluation.slices = make_slices(evaluation.results);
  evaluation.calibration = calibrate(speeds);
  evaluation.reliability = reliability_of(all);
  return evaluation;
}

bool all_met(std::span<const Criterion> criteria) noexcept {
  return std::ranges::all_of(criteria, &Criterion::met);
}

Criterion above(std::string what, double value, double limit) {
  return {std::move(what), value, fmt::format("> {} %", limit), value > limit};
}

std::vector<Criterion> target_criteria(Op op, const Summary& summary) {
  const std::array<double, 3> reached = {summary.mean, summary.p10, summary.hit_rate[0]};  // as Quality
  std::vector<Criterion> criteria;
  for (const QualityTarget& target : operation(op).quality_targets(op)) {
    const double value = 100 * reached[static_cast<std::size_t>(target.quality)];
    Criterion& one = criteria.emplace_back(above(std::string(word(target.quality)), value, target.percent));
    if (!target.reached) continue;
    one.limit = fmt::format(">= {} %", target.percent);
    one.met = value >= target.percent;
  }
  if (criteria.empty())
    fail(Errc::invalid_argument,
         "--targets: the public tools ask nothing of models of {}; `kscout evaluate --min-mean 90` takes a "
         "limit",
         operation(op).plural);
  return criteria;
}

}  // namespace kscout
