#include "train/train.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include <kscout/provider.h>

#include "core/build_info.h"
#include "core/fail.h"
#include "core/hash.h"
#include "dataset/reduce.h"
#include "lightgbm/lightgbm.h"
#include "train/best_tflops.h"
#include "train/checkpoint.h"
#include "train/cross_validate.h"
#include "train/families.h"
#include "train/shortlist.h"
#include "train/warm_start.h"

namespace kscout {

namespace {

/// ModelData::first_trees of a model for any CPU: the best of the first kKeptByFirstTrees configs by so many
/// trees is as good as the best by all trees (docs/bench/any_cpu.md).
constexpr std::size_t kFirstTrees = 24;
/// Minimum share of the best speed of rows that calibration uses: choices are made among fast rows.
constexpr double kCalibratedFrom = 0.5;

/// Fits ln TFLOPS to the out-of-fold scores by least squares.
void calibrate(const TrainingSet& set, const std::vector<double>& scores, const std::vector<double>& best_log,
               ModelTarget& target) {
  const bool against_best = target.target == Target::relative || target.target == Target::rank;
  const double sign = target.target == Target::latency ? -1 : 1;
  double n = 0, sum_x = 0, sum_y = 0, sum_xx = 0, sum_xy = 0;
  for (std::size_t p = 0; p < set.problems.size(); ++p) {
    const std::size_t begin = set.first_row[p], end = set.first_row[p + 1];
    double top = sign * scores[begin];
    for (std::size_t r = begin; r < end; ++r) top = std::max(top, sign * scores[r]);
    for (std::size_t r = begin; r < end; ++r) {
      if (set.tflops(p, r) < kCalibratedFrom * set.best_tflops[p]) continue;
      const double x = claimed_log_tflops(target, sign * scores[r], top, set.problems[p]);
      const double y =
          std::log(set.tflops(p, r)) - set.log_unit[set.device_of[p]] - (against_best ? best_log[p] : 0);
      n += 1;
      sum_x += x;
      sum_y += y;
      sum_xx += x * x;
      sum_xy += x * y;
    }
  }
  const double variance = n * sum_xx - sum_x * sum_x;
  const double slope = variance > 1e-12 * n * n ? (n * sum_xy - sum_x * sum_y) / variance : 1;
  // A slope that is not positive would reverse the order; then only the offset is fitted.
  target.slope = slope > 0.01 ? slope : 1;
  target.offset = (sum_y - target.slope * sum_x) / n;
}

/// The earlier model's score of each row; 0 without a model.
std::vector<double> start_scores(const TrainingSet& set, const LightgbmTarget* earlier) {
  std::vector<double> scores(set.row_count(), 0.0);
  for (std::size_t p = 0; earlier && p < set.problems.size(); ++p) {
    const std::vector<double> values = set.features_of(p);
    earlier->model.forest.predict(
        values.data(), set.features, 1,
        std::span(scores).subspan(set.first_row[p], set.first_row[p + 1] - set.first_row[p]));
  }
  return scores;
}

/// Weights of rows before choices are known.
std::vector<float> plain_weights(const TrainingSet& set, double near_best) {
  return near_best > 0 ? weights_of(set, near_best) : std::vector<float>(set.row_count(), 1.0F);
}

/// Weights from 1 for a problem whose choice was the best to 5 for a problem whose choice lost 20 % or more,
/// times the plain weights of its rows.
std::vector<float> hard_weights(const TrainingSet& set, const std::vector<double>& scores, Target target,
                                double near_best) {
  constexpr double kMax = 5, kWorst = 0.2;
  std::vector<float> weights = plain_weights(set, near_best);
  const auto efficiency =
      selection_efficiency(set, scores, target == Target::latency, [](std::size_t) { return true; });
  for (std::size_t p = 0; p < set.problems.size(); ++p) {
    const double hard = 1 + (kMax - 1) * std::min((1 - efficiency[p]) / kWorst, 1.0);
    for (std::size_t r = set.first_row[p]; r < set.first_row[p + 1]; ++r)
      weights[r] *= static_cast<float>(hard);
  }
  return weights;
}

/// Trains with higher weights for hard problems and keeps the weights that choose best; sets them in `whole`.
void mine_hard_problems(const TrainingSet& set, lightgbm::Dataset& whole, const Schema& schema,
                        const std::vector<std::uint32_t>& fold_of, const TrainOptions& options,
                        const TrainParameters& growing, const Progress& progress, TrainedTarget& trained) {
  if (options.hard_rounds <= 0) return;
  const double near_best = options.parameters.near_best_weight;
  std::vector<float> best = plain_weights(set, near_best);
  std::vector<double> scores = trained.validation.out_of_fold;
  for (int round = 1; round <= options.hard_rounds; ++round) {
    const auto weights = hard_weights(set, scores, trained.target, near_best);
    whole.set_weights(weights);
    auto validation = cross_validate(set, whole, schema, trained.target, fold_of, growing, progress);
    scores = validation.out_of_fold;
    if (validation.efficiency.mean <= trained.validation.efficiency.mean) continue;
    trained.validation = std::move(validation);
    trained.hard_round = round;
    best = weights;
  }
  whole.set_weights(best);
}

std::string bits_of(double value) { return fmt::format("{:x}", std::bit_cast<std::uint64_t>(value)); }

/// A text that changes with everything that decides the trees of a target, except the target's own
/// parameters.
std::string identity_of_training(const TrainingSet& set, const Device& device, const Schema& schema,
                                 const TrainOptions& options) {
  const TrainParameters& p = options.parameters;
  return fmt::format("{} {} {:x} {} {} {} {} {} {} {} {} {} {} {} {}", build_info().git,
                     fingerprint_of(set, device), fields_hash(device), hash_digits(schema.hash()), p.rounds,
                     p.min_rounds, p.check_every, p.patience, bits_of(p.near_best_weight), options.folds,
                     word(options.fold_by), options.hard_rounds, bits_of(options.handicap.share),
                     options.handicap.where, options.warm_start.string());
}

std::string identity_of_target(const std::string& training, const std::string& parameters,
                               const std::vector<double>& start, const LightgbmTarget* earlier) {
  std::uint64_t hash = text_hash(training + parameters);
  for (const double score : start) hash = mix_hash(hash, std::bit_cast<std::uint64_t>(score));
  if (earlier) hash = text_hash(lightgbm_text(earlier->model), hash);
  return hash_digits(hash);
}

TrainedTarget train_target(const TrainingSet& set, lightgbm::Dataset& whole, const Schema& schema,
                           Target target, const std::vector<std::uint32_t>& fold_of,
                           const TrainOptions& options, const WarmStart* warm, const std::string& training,
                           const Progress& progress) {
  whole.set_labels(labels_of(set, target));
  const LightgbmTarget* const earlier = warm ? warm->find(target) : nullptr;
  TrainParameters growing = options.parameters;
  // Adds exactly as many trees as requested (TrainOptions::warm_start).
  if (earlier && !warm->any_cpu) growing.patience = growing.min_rounds = growing.rounds;
  const std::vector<double> start = start_scores(set, earlier);
  if (warm) whole.set_start(start);
  if (warm && !earlier && progress) progress(fmt::format("{}: no earlier model, from nothing", word(target)));
  const std::string parameters = lightgbm_parameters(options.parameters, target, schema);
  const Checkpoint checkpoint(options.checkpoint, identity_of_target(training, parameters, start, earlier));
  std::optional<TrainedTarget> before = checkpoint.load(target);
  if (before && progress) progress(fmt::format("{}: kept in {}", word(target), options.checkpoint.string()));
  if (before && !before->text.empty()) return std::move(*before);
  TrainedTarget trained{.target = target,
                        .validation = {},
                        .text = {},
                        .split_counts = {},
                        .earlier_trees = warm ? warm->trees(target) : 0};
  if (before) {
    trained.validation = std::move(before->validation);
  } else {
    trained.validation = cross_validate(set, whole, schema, target, fold_of, growing, progress);
    checkpoint.save(trained);
  }
  mine_hard_problems(set, whole, schema, fold_of, options, growing, progress, trained);
  if (target == Target::rank) whole.set_groups(group_sizes(set, [](std::size_t) { return true; }));
  lightgbm::Booster booster(whole, parameters);
  const int rounds = trained.validation.rounds;
  for (int round = 0; round < rounds && booster.update(); ++round) {
    if (progress) progress(fmt::format("{}: all rows, {} of {} trees", word(target), round + 1, rounds));
  }
  if (earlier) booster.put_before(lightgbm::Booster(lightgbm_text(earlier->model)));
  trained.text = booster.text(trained.earlier_trees + rounds);
  trained.split_counts = booster.split_counts(trained.earlier_trees + rounds, set.features);
  whole.set_groups({});  // of other targets, rows are not ranked
  checkpoint.save(trained);
  return trained;
}

/// The median set-up time of each config over the family's measured problems, NaN for a config without any;
/// empty when no config has one.
std::vector<double> median_setup_us(std::span<const CompactTable> tables, const Family& family) {
  std::unordered_map<KernelConfig, std::vector<double>> samples;
  for (const CompactTable& table : tables) {
    table.for_each_setup([&](std::uint32_t problem, std::uint32_t config, double setup_us) {
      if (signature_of(table.problems[problem]) == family.signature)
        samples[table.configs[config]].push_back(setup_us);
    });
  }
  if (samples.empty()) return {};
  std::vector<double> medians(family.configs.size(), Measurement::unknown);
  for (std::size_t i = 0; i < medians.size(); ++i) {
    const auto found = samples.find(family.configs[i]);
    if (found == samples.end()) continue;
    const auto middle = found->second.begin() +
                        static_cast<std::ptrdiff_t>(found->second.size() / 2);  // the upper one of two
    std::ranges::nth_element(found->second, middle);
    medians[i] = *middle;
  }
  return medians;
}

/// Whether the kernels' library suggests configs.
bool has_suggestions(std::span<const Family> families) {
  return std::ranges::any_of(families, [](const Family& family) {
    return std::ranges::find(family.traits, 1, &Traits::suggestion) != family.traits.end();
  });
}

/// Min share of the problems whose list has an algorithm of a kind; of rarer kinds trees learn little.
constexpr double kKnownFrom = 0.02;

/// ModelData::listed_kinds of a training.
std::vector<AlgorithmKind> listed_kinds(const TrainingSet& set, const Schema& schema) {
  if (!schema.reads("t.listed")) return {};
  std::vector<std::optional<AlgorithmKind>> kind_of_config;  // of listed ones
  for (const KernelConfig& config : set.configs) {
    const Provider& of = provider(config.space->provider);
    const Traits traits = of.traits(signature_of(set.problems.front()), config, set.devices.front());
    kind_of_config.push_back(std::isnan(traits.listed) ? std::nullopt : std::optional(kind_of(traits)));
  }
  std::map<AlgorithmKind, std::size_t> problems;
  for (std::size_t p = 0; p < set.problems.size(); ++p) {
    std::set<AlgorithmKind> kinds;
    for (std::size_t r = set.first_row[p]; r < set.first_row[p + 1]; ++r) {
      if (const auto& kind = kind_of_config[set.rows[r].config]) kinds.insert(*kind);
    }
    for (const AlgorithmKind& kind : kinds) ++problems[kind];
  }
  std::vector<AlgorithmKind> known;
  for (const auto& [kind, count] : problems) {
    if (static_cast<double>(count) >= kKnownFrom * static_cast<double>(set.problems.size()))
      known.push_back(kind);
  }
  return known;
}
}  // namespace

std::string fingerprint_of(const TrainingSet& set, const Device& device) {
  std::uint64_t hash = text_hash("");
  const auto add = [&](std::string_view text) { hash = text_hash(text, hash); };
  add(device.name);
  if (set.devices.size() > 1) {
    for (const Device& measured : set.devices) add(hash_digits(fields_hash(measured)));
    for (const std::uint32_t of : set.device_of) add(fmt::format("{}", of));
  }
  for (const KernelConfig& config : set.configs) {
    for (std::size_t axis = 0; axis < config.space->axes.size(); ++axis) {
      add(axis_value_text(config.space->axes[axis], config[axis]));
      add(",");
    }
  }
  for (std::size_t p = 0; p < set.problems.size(); ++p) {
    add(print(set.problems[p]));
    for (std::size_t r = set.first_row[p]; r < set.first_row[p + 1]; ++r) {
      add(fmt::format(" {}:{:x}", set.rows[r].config, std::bit_cast<std::uint64_t>(set.tflops(p, r))));
    }
  }
  return hash_digits(hash);
}

namespace {

void check_any_cpu(const TrainOptions& options) {
  if (options.devices != TrainFor::any_cpu) {
    if (options.fold_by == FoldBy::device)
      fail(Errc::invalid_argument,
           "folds by device need a model for any CPU; other models are of one device");
    return;
  }
  for (const Target target : options.targets) {
    if (target != Target::relative && target != Target::rank) {
      fail(Errc::invalid_argument,
           "target {} of a model for any CPU: speeds differ between CPUs; train relative or rank",
           word(target));
    }
  }
  if (!options.warm_start.empty())
    fail(Errc::invalid_argument, "a model for any CPU cannot start from trees of another model");
}

/// The tables without rows of configs that the rule set does not have on the table's device: the model will
/// never choose them.
std::vector<CompactTable> rows_of_rule_set(std::span<const CompactTable> tables, const std::string& rules) {
  std::vector<CompactTable> kept(tables.begin(), tables.end());
  std::size_t rows = 0;
  for (CompactTable& table : kept) {
    if (table.configs.empty()) continue;
    const ConfigsOfRules wanted(table.problems, *table.configs.front().space, table.device, rules);
    table.keep_rows([&](std::uint32_t problem, std::uint32_t config) {
      return wanted.hold(problem, table.configs[config]);
    });
    rows += table.row_count();
  }
  if (rows == 0)
    fail(Errc::invalid_argument,
         "no measured config is in rule set '{}'; name the rule set that was measured with --rules", rules);
  return kept;
}

/// One fold per CPU, with all its instruction sets and thread counts.
std::vector<std::uint32_t> folds_by_device(const TrainingSet& set) {
  std::vector<std::string> cpus;
  for (const Device& device : set.devices) cpus.push_back(cpu_of(device));
  std::vector<std::string> distinct = cpus;
  std::ranges::sort(distinct);
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  if (distinct.size() < 2) {
    fail(Errc::invalid_argument,
         "folds by device need datasets of 2 or more CPUs, all are of {}; add data or fold by sizes",
         distinct.front());
  }
  std::vector<std::uint32_t> fold_of;
  for (const std::uint32_t device : set.device_of) {
    fold_of.push_back(
        static_cast<std::uint32_t>(std::ranges::lower_bound(distinct, cpus[device]) - distinct.begin()));
  }
  return fold_of;
}

std::vector<std::uint32_t> folds_of(const TrainingSet& set, std::span<const std::uint32_t> rows_per_problem,
                                    const TrainOptions& options) {
  if (options.fold_by == FoldBy::device) return folds_by_device(set);
  const SplitBy by = options.fold_by == FoldBy::weights    ? SplitBy::weights
                     : options.fold_by == FoldBy::geometry ? SplitBy::geometry
                                                           : SplitBy::sizes;
  return group_k_fold(set.problems, rows_per_problem, options.folds, by);
}

/// Efficiency of the config that is fastest on average over a device's problems.
std::vector<double> best_fixed(const TrainingSet& set, std::uint32_t device) {
  std::vector<double> sum(set.configs.size());
  const auto efficiency = [&](std::size_t p, std::size_t r) {
    return std::min(set.tflops(p, r) / set.best_tflops[p], 1.0);
  };
  for (std::size_t p = 0; p < set.problems.size(); ++p) {
    if (set.device_of[p] != device) continue;
    for (std::size_t r = set.first_row[p]; r < set.first_row[p + 1]; ++r)
      sum[set.rows[r].config] += efficiency(p, r);
  }
  const auto best = static_cast<std::uint32_t>(std::ranges::max_element(sum) - sum.begin());
  std::vector<double> reached;
  for (std::size_t p = 0; p < set.problems.size(); ++p) {
    if (set.device_of[p] != device) continue;
    reached.push_back(0);  // of a problem that the config was not measured on
    for (std::size_t r = set.first_row[p]; r < set.first_row[p + 1]; ++r) {
      if (set.rows[r].config == best) reached.back() = efficiency(p, r);
    }
  }
  return reached;
}

std::vector<DeviceResult> device_results(const TrainingSet& set, const Schema& schema,
                                         const std::vector<double>& scores, bool lower_is_better) {
  const auto time = std::ranges::find(schema.features(), "analytic_time_us", &Feature::id);
  std::vector<double> times;
  if (time != schema.features().end()) {
    const auto column = static_cast<std::size_t>(time - schema.features().begin());
    for (std::size_t p = 0; p < set.problems.size(); ++p) {
      const std::vector<double> values = set.features_of(p);
      for (std::size_t at = column; at < values.size(); at += set.features) times.push_back(values[at]);
    }
  }
  std::vector<DeviceResult> results;
  for (std::uint32_t d = 0; d < set.devices.size(); ++d) {
    const auto of_device = [&](std::size_t p) { return set.device_of[p] == d; };
    results.push_back({.device = set.devices[d],
                       .model = summarise(selection_efficiency(set, scores, lower_is_better, of_device)),
                       .analytic = times.empty()
                                       ? EfficiencySummary()
                                       : summarise(selection_efficiency(set, times, true, of_device)),
                       .best_fixed = summarise(best_fixed(set, d))});
  }
  return results;
}

}  // namespace

TrainingInput training_input(std::span<const CompactTable> tables, std::vector<Family> families,
                             const Schema& schema, const TrainOptions& options) {
  if (options.targets.empty()) fail(Errc::invalid_argument, "no target to train: give at least one");
  check_any_cpu(options);
  const bool any = options.devices == TrainFor::any_cpu;
  std::vector<CompactTable> of_rule_set;
  if (any) tables = of_rule_set = rows_of_rule_set(tables, families.front().rules);
  TrainingSet set = make_training_set(tables, families, schema, options.handicap, options.devices);
  families = measured_families(std::move(families), set);
  for (Family& family : families) family.setup_us = median_setup_us(tables, family);
  return {any ? any_cpu() : tables.front().device, std::move(set), std::move(families)};
}

TrainingResult train(std::span<const CompactTable> tables, std::vector<Family> families,
                     std::shared_ptr<const Schema> schema, const TrainOptions& options,
                     const Progress& progress) {
  TrainingInput input = training_input(tables, std::move(families), *schema, options);
  return train(std::move(input), std::move(schema), options, progress);
}

TrainingResult train(TrainingInput input, std::shared_ptr<const Schema> schema,
                     const TrainOptions& given_options, const Progress& progress) {
  TrainingSet set = std::move(input.set);
  const Device& device = input.device;
  TrainOptions options = given_options;
  options.parameters.growth = growth_of(options.parameters, set);
  const bool any = options.devices == TrainFor::any_cpu;
  std::vector<std::uint32_t> rows_per_problem;
  for (const auto size : group_sizes(set, [](std::size_t) { return true; })) {
    rows_per_problem.push_back(static_cast<std::uint32_t>(size));
  }
  const auto fold_of = folds_of(set, rows_per_problem, options);
  if (progress)
    progress(fmt::format("{} rows of {} problems, {} features", set.row_count(), set.problems.size(),
                         set.features));

  std::vector<std::string> names;
  for (const Feature& feature : schema->features()) names.push_back(feature.id);
  lightgbm::Dataset whole(
      set.first_row, [&](std::size_t problem) { return set.features_of(problem); }, names,
      lightgbm_parameters(options.parameters, Target::relative, *schema));
  std::optional<WarmStart> warm;
  if (!options.warm_start.empty()) {
    const Signature signature = signature_of(set.problems.front());
    warm = read_warm_start(options.warm_start, *schema, signature, device, options.targets);
  }
  const std::string training = identity_of_training(set, device, *schema, options);
  std::vector<TrainedTarget> trained;
  for (const Target target : options.targets) {
    // Resets weights that the previous target may have left, too.
    if (options.parameters.near_best_weight > 0 || options.hard_rounds > 0)
      whole.set_weights(plain_weights(set, options.parameters.near_best_weight));
    trained.push_back(train_target(set, whole, *schema, target, fold_of, options, warm ? &*warm : nullptr,
                                   training, progress));
  }
  std::ranges::stable_sort(trained, std::ranges::greater{},
                           [](const TrainedTarget& t) { return t.validation.efficiency.mean; });

  const BestTflops best =
      train_best_tflops(set, *schema, fold_of, options.parameters.seed, options.parameters.threads);
  ModelData data;
  data.families = std::move(input.families);
  data.schema = schema;
  data.best_tflops = best.forest;
  data.best_features = best.features;
  data.any_cpu = any;
  if (any) data.known_devices = set.devices;
  data.fingerprint = fingerprint_of(set, device);
  std::size_t first_trees = any ? kFirstTrees : 0;
  for (const TrainedTarget& target : trained) {
    ModelTarget forest;
    forest.target = target.target;
    forest.forest = parse_lightgbm(target.text).forest;
    calibrate(set, target.validation.out_of_fold, best.out_of_fold, forest);
    if (any) first_trees = std::min(first_trees, forest.forest.tree_count());
    data.targets.push_back(std::move(forest));
  }
  data.first_trees = static_cast<std::uint32_t>(first_trees);
  const std::vector<double>& scores = trained.front().validation.out_of_fold;
  const bool lower_is_better = data.targets.front().target == Target::latency;
  ShortlistFit shortlist;
  std::optional<ConfidenceFit> confidence;
  // A shortlist names configs, and a confidence and a region hold for the problems of one machine: a model
  // for any CPU has none of them.
  if (!any) {
    if (progress) progress("shortlist");
    shortlist = fit_shortlist(set, data.families, fold_of, scores, lower_is_better, options.parameters.seed);
    data.shortlist = shortlist.shortlist;
    data.region = fit_region(set, data.families, [](std::size_t) { return true; });
    const auto choices = observed_choices(set, data.targets.front(), scores, fold_of, data.families);
    if (options.guard && has_suggestions(data.families)) data.guard = Guard{};
    data.listed_kinds = listed_kinds(set, *schema);
    confidence = fit_confidence(choices);
    if (confidence) data.confidence = confidence->confidence;
  }
  auto devices = device_results(set, *schema, scores, lower_is_better);
  return {Model(std::move(data)), std::move(set), fold_of,           std::move(trained), best.r2, options,
          std::move(confidence),  shortlist,      std::move(devices)};
}

}  // namespace kscout
