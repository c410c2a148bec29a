#include "train/training_set.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>

#include <kscout/provider.h>

#include "core/fail.h"
#include "dataset/columns.h"
#include "family/rules.h"

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
      return std::log1p(row.tflops > 0 ? row.time_us : best_us / kMinRelative);
    }
    case Target::bandwidth:
      return row.tflops > 0 ? std::log1p(min_bytes(set.problems[problem]) / row.time_us * 1e-3) : 0;
    case Target::relative:
      return std::log(std::max(relative, kMinRelative));
    case Target::rank:
      return std::round(kMaxRank * relative * relative);
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

namespace {

/// A row of a table before it has a position in the set.
struct Candidate {
  std::uint32_t config;
  const Measurement* measured;
};

/// Whether a replaces b as the measurement of one (problem, config): the later pass first, then a success
/// before a failure.
bool counts_more(const Measurement& a, const Measurement& b) {
  const bool a_ok = a.status == Status::ok, b_ok = b.status == Status::ok;
  if (a_ok != b_ok) return a_ok;
  return a.pass > b.pass;
}

/// Collects the measurements of each problem over all tables.
class TrainingSetBuilder {
 public:
  void add(const MeasurementTable& table) {
    std::vector<std::uint32_t> config_of;
    for (const KernelConfig& config : table.configs) config_of.push_back(config_index(config));
    for (const auto& row : table.rows) {
      if (row.measured.status == Status::unsupported) continue;
      if (row.problem >= table.problems.size() || row.config >= config_of.size()) {
        fail(Errc::corrupt_data, "a measurement of problem {}, config {} in a table of {} and {}",
             row.problem, row.config, table.problems.size(), config_of.size());
      }
      auto& found = of_problem(table.problems[row.problem]);
      const auto [at, is_new] = found.emplace(config_of[row.config], &row.measured);
      if (!is_new && counts_more(row.measured, *at->second)) at->second = &row.measured;
    }
  }

  TrainingSet take() {
    TrainingSet set;
    set.configs = std::move(configs_);
    set.first_row.push_back(0);
    for (std::size_t p = 0; p < problems_.size(); ++p) append(set, problems_[p], rows_[p]);
    if (set.rows.empty()) fail(Errc::invalid_argument, "nothing to train on: no measurement succeeded");
    return set;
  }

 private:
  using Rows = std::map<std::uint32_t, const Measurement*>;  // by config: family order within a problem

  std::uint32_t config_index(const KernelConfig& config) {
    const auto [at, is_new] = config_index_.emplace(config, static_cast<std::uint32_t>(configs_.size()));
    if (is_new) configs_.push_back(config);
    return at->second;
  }
  Rows& of_problem(const Problem& problem) {
    const auto [at, is_new] = problem_index_.emplace(problem, problems_.size());
    if (is_new) {
      problems_.push_back(problem);
      rows_.emplace_back();
    }
    return rows_[at->second];
  }
  static void append(TrainingSet& set, const Problem& problem, const Rows& rows) {
    const double flops = flop_count(problem);
    double best = 0;
    for (const auto& [config, measured] : rows) {
      if (measured->status == Status::ok && measured->time_us > 0)
        best = std::max(best, flops / measured->time_us * 1e-6);
    }
    if (!(best > 0)) return;
    for (const auto& [config, measured] : rows) {
      const bool timed = was_timed(*measured);
      set.rows.push_back({config, timed ? measured->time_us : Measurement::unknown,
                          timed ? flops / measured->time_us * 1e-6 : 0.0,
                          measured->status == Status::pruned_early,
                          /*handicapped=*/false, measured->repeats});
    }
    set.problems.push_back(problem);
    set.best_tflops.push_back(best);
    set.first_row.push_back(static_cast<std::uint32_t>(set.rows.size()));
  }

  std::vector<KernelConfig> configs_;
  std::unordered_map<KernelConfig, std::uint32_t> config_index_;
  std::vector<Problem> problems_;
  std::unordered_map<Problem, std::size_t> problem_index_;
  std::vector<Rows> rows_;
};

/// Traits of every config under a signature: from the family where it holds the config, else from the
/// provider.
std::vector<Traits> traits_of(const std::vector<KernelConfig>& configs, const Signature& signature,
                              std::span<const Family> families, const Device& device) {
  std::unordered_map<KernelConfig, const Traits*> known;
  for (const Family& family : families) {
    if (family.signature != signature) continue;
    for (std::size_t i = 0; i < family.configs.size(); ++i)
      known.emplace(family.configs[i], &family.traits[i]);
  }
  std::vector<Traits> traits;
  for (const KernelConfig& config : configs) {
    const auto found = known.find(config);
    traits.push_back(found != known.end()
                         ? *found->second
                         : provider(config.space->provider).traits(signature, config, device));
  }
  return traits;
}

void fill_matrix(TrainingSet& set, std::span<const Family> families, const Device& device,
                 const Schema& schema) {
  set.features = schema.size();
  set.matrix.resize(set.rows.size() * set.features);
  std::vector<std::pair<Signature, std::vector<Traits>>> by_signature;
  for (std::size_t p = 0; p < set.problems.size(); ++p) {
    const Signature signature = signature_of(set.problems[p]);
    auto found =
        std::ranges::find(by_signature, signature, &std::pair<Signature, std::vector<Traits>>::first);
    if (found == by_signature.end()) {
      by_signature.emplace_back(signature, traits_of(set.configs, signature, families, device));
      found = by_signature.end() - 1;
    }
    ConfigTable configs(*set.configs.front().space);
    std::vector<Traits> traits;
    for (std::size_t r = set.first_row[p]; r < set.first_row[p + 1]; ++r) {
      configs.push_back(set.configs[set.rows[r].config]);
      traits.push_back(found->second[set.rows[r].config]);
    }
    schema.evaluate(
        set.problems[p], device, configs, traits,
        std::span(set.matrix).subspan(set.first_row[p] * set.features, configs.size() * set.features));
  }
}

void mark_handicapped(TrainingSet& set, const Handicap& handicap, const Device& device) {
  if (!(handicap.share >= 0 && handicap.share < 1))
    fail(Errc::invalid_argument, "a handicap of {:g} % of the speed: 0 to less than 100",
         100 * handicap.share);
  set.handicap = handicap.share;
  if (handicap.where.empty()) return;
  std::vector<std::pair<Signature, std::vector<bool>>> marked;
  for (std::size_t p = 0; p < set.problems.size(); ++p) {
    const Signature signature = signature_of(set.problems[p]);
    auto found = std::ranges::find(marked, signature, &std::pair<Signature, std::vector<bool>>::first);
    if (found == marked.end()) {
      marked.emplace_back(signature,
                          holding_configs({"--handicap", handicap.where}, set.configs, device, signature));
      found = marked.end() - 1;
    }
    for (std::size_t r = set.first_row[p]; r < set.first_row[p + 1]; ++r)
      set.rows[r].handicapped = found->second[set.rows[r].config];
  }
}

}  // namespace

std::size_t TrainingSet::problem_of(std::size_t row) const noexcept {
  return static_cast<std::size_t>(std::ranges::upper_bound(first_row, row) - first_row.begin()) - 1;
}

TrainingSet make_training_set(std::span<const MeasurementTable> tables, std::span<const Family> families,
                              const Schema& schema, const Handicap& handicap) {
  if (tables.empty()) fail(Errc::invalid_argument, "nothing to train on: no dataset given");
  TrainingSetBuilder builder;
  for (const MeasurementTable& table : tables) {
    if (table.device.name != tables.front().device.name) {
      fail(Errc::invalid_argument, "a model is of one device: the datasets are of {} and {}",
           tables.front().device.name, table.device.name);
    }
    builder.add(table);
  }
  TrainingSet set = builder.take();
  mark_handicapped(set, handicap, tables.front().device);
  fill_matrix(set, families, tables.front().device, schema);
  return set;
}

}  // namespace kscout
