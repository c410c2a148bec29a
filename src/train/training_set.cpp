#include "train/training_set.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_map>

#include <kscout/provider.h>

#include "core/fail.h"
#include "core/max_tflops.h"
#include "dataset/columns.h"
#include "family/rules.h"

namespace kscout {

namespace {

double relative_of(const TrainingSet& set, std::size_t problem, std::size_t row) {
  return std::clamp(set.tflops(problem, row) / set.best_tflops[problem], 0.0, 1.0);
}

double label_of(const TrainingSet& set, Target target, std::size_t problem, std::size_t row) {
  const TrainingSet::Row& measured = set.rows[row];
  const double tflops = set.tflops(problem, row);
  const double relative = relative_of(set, problem, row) * (measured.handicapped ? 1 - set.handicap : 1);
  switch (target) {
    case Target::tflops:
      return std::log1p(tflops);
    case Target::latency: {
      const double best_us = time_us_of(set.problems[problem], set.best_tflops[problem]);
      return std::log1p(tflops > 0 ? measured.time_us : best_us / kMinRelative);
    }
    case Target::bandwidth:
      return tflops > 0 ? std::log1p(min_bytes(set.problems[problem]) / measured.time_us * 1e-3) : 0;
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
      labels[r] = static_cast<float>(label_of(set, target, p, r));
    }
  }
  return labels;
}

std::vector<float> weights_of(const TrainingSet& set, double near_best_weight) {
  std::vector<float> weights(set.row_count());
  for (std::size_t p = 0; p < set.problems.size(); ++p) {
    for (std::size_t r = set.first_row[p]; r < set.first_row[p + 1]; ++r) {
      const double relative = relative_of(set, p, r);
      weights[r] = static_cast<float>(1 + near_best_weight * std::pow(relative, 4));
    }
  }
  return weights;
}

std::string objective_of(Target target) { return target == Target::rank ? "lambdarank" : "regression"; }

namespace {

/// Whether a replaces b as the measurement of one (problem, config): a success before a failure, then the
/// later pass.
bool counts_more(const Measurement& a, const Measurement& b) {
  const bool a_ok = a.status == Status::ok, b_ok = b.status == Status::ok;
  if (a_ok != b_ok) return a_ok;
  return a.pass > b.pass;
}

/// Collects the measurements of each problem over all tables, which outlive this object.
class TrainingSetBuilder {
 public:
  /// Throws invalid_argument when the table's device does not go with the earlier ones.
  void add(const CompactTable& table, TrainFor devices) {
    const std::uint32_t device = device_index(table.device, devices);
    Source source{.table = &table, .config_of = {}, .learns_refusals = false};
    for (const KernelConfig& config : table.configs) source.config_of.push_back(config_index(config));
    source.learns_refusals =
        !table.configs.empty() && provider(table.configs.front().space->provider).library_decides();
    for (const std::uint32_t p : in_order_of_rows(source)) {
      const auto [at, is_new] = problem_index_[device].emplace(table.problems[p], problems_.size());
      if (is_new) {
        problems_.push_back(table.problems[p]);
        device_of_.push_back(device);
        parts_.emplace_back();
      }
      parts_[at->second].push_back({static_cast<std::uint32_t>(sources_.size()), p});
    }
    rows_ += table.row_count();
    sources_.push_back(std::move(source));
  }

  TrainingSet take() {
    TrainingSet set;
    set.configs = std::move(configs_);
    set.rows.reserve(rows_);
    set.first_row.push_back(0);
    for (std::size_t p = 0; p < problems_.size(); ++p) append(set, p, in_family_order(rows_of(p)));
    set.devices = std::move(devices_);
    if (set.rows.empty()) fail(Errc::invalid_argument, "nothing to train on: no measurement succeeded");
    return set;
  }

 private:
  using Rows = std::vector<FinalRow>;

  struct Source {
    const CompactTable* table;
    std::vector<std::uint32_t> config_of;  ///< in the set, of each config of the table
    bool learns_refusals;
  };
  /// A problem of a table.
  struct Part {
    std::uint32_t source, problem;
  };

  /// Calls `use(config, measurement, number)` for each row that is learned from.
  template <class Use>
  static void for_each_row(const Source& source, std::uint32_t problem, Use&& use) {
    source.table->for_each_row(
        problem, [&](std::uint32_t config, const Measurement& measured, std::uint32_t number) {
          const bool refused = measured.status == Status::unsupported && !source.learns_refusals;
          if (measured.status != Status::left_out && !refused)
            use(source.config_of[config], measured, number);
        });
  }

  /// The problems that have such rows, by the first one.
  static std::vector<std::uint32_t> in_order_of_rows(const Source& source) {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> first;
    for (std::uint32_t p = 0; p < source.table->problems.size(); ++p) {
      std::optional<std::uint32_t> least;
      for_each_row(source, p, [&](std::uint32_t, const Measurement&, std::uint32_t number) {
        least = std::min(least.value_or(number), number);
      });
      if (least) first.emplace_back(*least, p);
    }
    std::ranges::sort(first);
    std::vector<std::uint32_t> problems;
    for (const auto& [number, problem] : first) problems.push_back(problem);
    return problems;
  }

  Rows rows_of(std::size_t problem) const {
    Rows rows;
    for (const Part& part : parts_[problem]) {
      for_each_row(sources_[part.source], part.problem,
                   [&](std::uint32_t config, const Measurement& measured, std::uint32_t) {
                     rows.push_back({config, measured});
                   });
    }
    return rows;
  }

  /// One row for each config, by config.
  static Rows in_family_order(Rows rows) {
    std::ranges::stable_sort(rows, {}, &FinalRow::config);
    Rows one_each;
    for (const FinalRow& row : rows) {
      if (one_each.empty() || one_each.back().config != row.config) {
        one_each.push_back(row);
      } else if (counts_more(row.measured, one_each.back().measured)) {
        one_each.back() = row;
      }
    }
    return one_each;
  }

  std::uint32_t device_index(const Device& device, TrainFor devices) {
    if (devices == TrainFor::one_device && !devices_.empty()) {
      if (device.name == devices_.front().name) return 0;
      fail(Errc::invalid_argument,
           "a model is of one device: the datasets are of {} and {}; train one for each, or one for any CPU",
           devices_.front().name, device.name);
    }
    if (devices == TrainFor::any_cpu && device.kind != DeviceKind::cpu)
      fail(Errc::invalid_argument, "a model for any CPU: a dataset is of {} {}", word(device.kind),
           device.name);
    const auto known = std::ranges::find(devices_, device);
    if (known == devices_.end()) {
      devices_.push_back(device);
      problem_index_.emplace_back();
      return static_cast<std::uint32_t>(devices_.size() - 1);
    }
    return static_cast<std::uint32_t>(known - devices_.begin());
  }
  std::uint32_t config_index(const KernelConfig& config) {
    const auto [at, is_new] = config_index_.emplace(config, static_cast<std::uint32_t>(configs_.size()));
    if (is_new) configs_.push_back(config);
    return at->second;
  }
  void append(TrainingSet& set, std::size_t p, const Rows& rows) const {
    const double flops = flop_count(problems_[p]);
    double best = 0;
    for (const auto& [config, measured] : rows) {
      if (measured.status != Status::ok || !(measured.time_us > 0)) continue;
      if (measured.time_us < kMinTimeUs)
        fail(Errc::invalid_argument, "{}: {} us: no kernel takes less than {} us", print(problems_[p]),
             measured.time_us, kMinTimeUs);
      best = std::max(best, flops / measured.time_us * 1e-6);
    }
    if (!(best > 0)) return;
    for (const auto& [config, measured] : rows) {
      constexpr std::int32_t kMaxRepeats = (1 << 30) - 1;
      TrainingSet::Row& row = set.rows.emplace_back();
      row.time_us = was_timed(measured) ? measured.time_us : Measurement::unknown;
      row.config = config;
      row.repeats = static_cast<std::uint32_t>(std::clamp(measured.repeats, 0, kMaxRepeats)) & kMaxRepeats;
      row.pruned_early = measured.status == Status::pruned_early;
    }
    set.problems.push_back(problems_[p]);
    set.device_of.push_back(device_of_[p]);
    set.flops.push_back(flops);
    set.best_tflops.push_back(best);
    set.first_row.push_back(static_cast<std::uint32_t>(set.rows.size()));
  }

  std::vector<KernelConfig> configs_;
  std::unordered_map<KernelConfig, std::uint32_t> config_index_;
  std::vector<Device> devices_;
  std::vector<Source> sources_;
  std::vector<Problem> problems_;
  std::vector<std::uint32_t> device_of_;
  std::vector<std::unordered_map<Problem, std::size_t>> problem_index_;  // by device
  std::vector<std::vector<Part>> parts_;                                 // by problem
  std::size_t rows_ = 0;
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

/// What a signature's configs are on a device, computed once for all problems of both.
template <class T>
class OnDevice {
 public:
  /// `make` computes the value at first use.
  template <class F>
  const T& get(std::uint32_t device, const Signature& signature, F&& make) {
    const auto found = std::ranges::find_if(
        known_, [&](const Entry& entry) { return entry.device == device && entry.signature == signature; });
    if (found != known_.end()) return found->value;
    known_.push_back({device, signature, make()});
    return known_.back().value;
  }

 private:
  struct Entry {
    std::uint32_t device;
    Signature signature;
    T value;
  };
  std::vector<Entry> known_;
};

}  // namespace

/// Knows the traits of the configs for each signature and device of a set.
class FeatureValues {
 public:
  FeatureValues(const TrainingSet& set, std::span<const Family> families, const Schema& schema)
      : schema_(schema) {
    for (std::size_t p = 0; p < set.problems.size(); ++p) {
      const Signature signature = signature_of(set.problems[p]);
      traits_.push_back(known_.get(set.device_of[p], signature, [&] {
        return std::make_shared<const std::vector<Traits>>(
            traits_of(set.configs, signature, families, set.device(p)));
      }));
    }
  }

  /// Of the problem's first `rows` rows.
  std::vector<double> of(const TrainingSet& set, std::size_t problem, std::size_t rows) const {
    const std::size_t begin = set.first_row[problem], end = begin + rows;
    ConfigTable configs(*set.configs.front().space);
    std::vector<Traits> traits;
    for (std::size_t r = begin; r < end; ++r) {
      configs.push_back(set.configs[set.rows[r].config]);
      traits.push_back((*traits_[problem])[set.rows[r].config]);
    }
    std::vector<double> values((end - begin) * schema_.size());
    schema_.evaluate(set.problems[problem], set.device(problem), configs, traits, values);
    return values;
  }

 private:
  using OfConfigs = std::shared_ptr<const std::vector<Traits>>;

  Schema schema_;
  OnDevice<OfConfigs> known_;
  std::vector<OfConfigs> traits_;  ///< of the configs, by problem
};

namespace {

void mark_handicapped(TrainingSet& set, const Handicap& handicap) {
  if (!(handicap.share >= 0 && handicap.share < 1))
    fail(Errc::invalid_argument, "a handicap of {:g} % of the speed: 0 to less than 100",
         100 * handicap.share);
  set.handicap = handicap.share;
  if (handicap.where.empty()) return;
  OnDevice<std::vector<bool>> known;
  for (std::size_t p = 0; p < set.problems.size(); ++p) {
    const Signature signature = signature_of(set.problems[p]);
    const std::vector<bool>& marked = known.get(set.device_of[p], signature, [&] {
      return holding_configs({"--handicap", handicap.where}, set.configs, set.device(p), signature);
    });
    for (std::size_t r = set.first_row[p]; r < set.first_row[p + 1]; ++r)
      set.rows[r].handicapped = marked[set.rows[r].config];
  }
}

}  // namespace

std::size_t TrainingSet::problem_of(std::size_t row) const noexcept {
  return static_cast<std::size_t>(std::ranges::upper_bound(first_row, row) - first_row.begin()) - 1;
}

double TrainingSet::log_best(std::size_t problem) const noexcept {
  return std::log(best_tflops[problem]) - log_unit[device_of[problem]];
}

std::vector<double> TrainingSet::features_of(std::size_t problem) const {
  return feature_values->of(*this, problem, first_row[problem + 1] - first_row[problem]);
}

std::vector<double> TrainingSet::first_features_of(std::size_t problem) const {
  return feature_values->of(*this, problem, 1);
}

TrainingSet make_training_set(std::span<const CompactTable> tables, std::span<const Family> families,
                              const Schema& schema, const Handicap& handicap, TrainFor devices) {
  if (tables.empty()) fail(Errc::invalid_argument, "nothing to train on: no dataset given");
  TrainingSetBuilder builder;
  for (const CompactTable& table : tables) builder.add(table, devices);
  TrainingSet set = builder.take();
  for (const Device& device : set.devices) {
    set.log_unit.push_back(devices == TrainFor::one_device
                               ? 0
                               : std::log(assumed_peak_tflops(device) / assumed_peak_tflops(any_cpu())));
  }
  mark_handicapped(set, handicap);
  // The families of a model for any CPU are not those of the measured devices.
  set.features = schema.size();
  set.feature_values = std::make_shared<const FeatureValues>(
      set, devices == TrainFor::any_cpu ? std::span<const Family>() : families, schema);
  return set;
}

}  // namespace kscout
