#include "select/model.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <kscout/provider.h>

#include "core/fail.h"
#include "features/schema.h"

namespace kscout {

namespace {

constexpr double kUnserved = -std::numeric_limits<double>::infinity();

/// Families of one model are of one provider, op, device and rule set.
void check_families(const std::vector<Family>& families) {
  if (families.empty()) fail(Errc::invalid_argument, "a model needs the configs of at least one signature");
  const Family& first = families.front();
  for (std::size_t i = 0; i < families.size(); ++i) {
    const Family& family = families[i];
    if (family.configs.empty() || family.traits.size() != family.configs.size() ||
        family.default_config >= family.configs.size()) {
      fail(Errc::invalid_argument, "family {} of a model: {} configs, {} traits, default {}", i,
           family.configs.size(), family.traits.size(), family.default_config);
    }
    if (family.provider != first.provider || &family.configs.space() != &first.configs.space() ||
        family.device != first.device || family.rules != first.rules) {
      fail(Errc::invalid_argument, "family {} of a model is of another provider, device or rule set", i);
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (families[j].signature == family.signature) {
        fail(Errc::invalid_argument, "families {} and {} of a model have one signature", j, i);
      }
    }
  }
}

void check_targets(const ModelData& data) {
  if (data.targets.empty()) fail(Errc::invalid_argument, "a model needs at least one target");
  for (std::size_t i = 0; i < data.targets.size(); ++i) {
    const TargetForest& target = data.targets[i];
    if (target.forest.feature_count != data.schema->size()) {
      fail(Errc::invalid_argument, "the forest of target {} reads {} features, the schema has {}",
           word(target.target), target.forest.feature_count, data.schema->size());
    }
    if (!std::isfinite(target.offset) || !std::isfinite(target.slope) || !(target.slope > 0)) {
      fail(Errc::invalid_argument, "calibration of target {}: offset {}, slope {} (must be above 0)",
           word(target.target), target.offset, target.slope);
    }
    const bool against_best = target.target == Target::relative || target.target == Target::rank;
    if (against_best && data.best_tflops.tree_count() == 0) {
      fail(Errc::invalid_argument, "target {} needs the forest of the best TFLOPS", word(target.target));
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (data.targets[j].target == target.target) {
        fail(Errc::invalid_argument, "target {} stands twice", word(target.target));
      }
    }
  }
}

void check_schema(const ModelData& data) {
  if (!data.schema) fail(Errc::invalid_argument, "a model needs a schema");
  const ConfigSpace& space = data.families.front().configs.space();
  const SchemaData& schema = data.schema->data();
  if (schema.op != space.op || (!schema.provider.empty() && schema.provider != space.provider)) {
    fail(Errc::invalid_argument, "schema '{}' is of {} {}, the configs are of {} {}", schema.name,
         schema.provider, word(schema.op), space.provider, word(space.op));
  }
}

void check_confidence(const ModelData& data) {
  if (!data.confidence) return;
  std::vector<std::size_t> configs;
  for (const Family& family : data.families) configs.push_back(family.configs.size());
  check(*data.confidence, configs);
}

void check_best(const ModelData& data) {
  if (data.best_tflops.feature_count != data.best_features.size()) {
    fail(Errc::invalid_argument, "the forest of the best TFLOPS reads {} features, {} are listed",
         data.best_tflops.feature_count, data.best_features.size());
  }
  for (const std::uint32_t feature : data.best_features) {
    if (feature >= data.schema->size() || !data.schema->depends(feature).problem_only()) {
      fail(Errc::invalid_argument,
           "feature {} cannot tell the best TFLOPS: it does not depend on the problem alone", feature);
    }
  }
}

}  // namespace

Model::Model(ModelData data) : data_(std::move(data)) {
  check_families(data_.families);
  check_schema(data_);
  check_targets(data_);
  check_best(data_);
  check_confidence(data_);
}

bool Model::has(Target target) const noexcept {
  return std::ranges::find(data_.targets, target, &TargetForest::target) != data_.targets.end();
}

const TargetForest& Model::forest_of(Target target) const {
  const auto found = std::ranges::find(data_.targets, target, &TargetForest::target);
  if (found != data_.targets.end()) return *found;
  std::string names;
  for (const auto& has : data_.targets) names += (names.empty() ? "" : ", ") + std::string(word(has.target));
  fail(Errc::invalid_argument, "the model was not trained for {}; it has {}", word(target), names);
}

const Family* Model::family(const Signature& signature) const noexcept {
  const auto serves = [&](bool accumulate) -> const Family* {
    Signature asked = signature;
    asked.accumulate = accumulate;
    const auto found = std::ranges::find(data_.families, asked, &Family::signature);
    return found == data_.families.end() ? nullptr : &*found;
  };
  const Family* const exact = serves(signature.accumulate);
  return exact ? exact : serves(!signature.accumulate);
}

std::vector<double> Model::score_rows(const GemmProblem& problem, const ConfigTable& configs,
                                      std::span<const Traits> traits, const TargetForest& forest) const {
  const std::size_t features = data_.schema->size();
  std::vector<double> matrix(features * configs.size()), scores(configs.size());
  data_.schema->evaluate(problem, device(), configs, traits, matrix);
  forest.forest.predict(matrix.data(), features, 1, scores);
  if (forest.target == Target::latency) {
    for (double& score : scores) score = -score;
  }
  return scores;
}

void Model::score(const GemmProblem& problem, std::span<double> scores) const {
  score(problem, default_target(), scores);
}

void Model::score(const GemmProblem& problem, Target target, std::span<double> scores) const {
  const Family* const of = family(signature_of(problem));
  if (!of) fail(Errc::unsupported, "the model was not trained for problems like {}", print(problem));
  if (scores.size() != of->configs.size()) {
    fail(Errc::invalid_argument, "{} scores for {} configs", scores.size(), of->configs.size());
  }
  const auto all = score_rows(problem, of->configs, of->traits, forest_of(target));
  std::vector<std::uint8_t> serves;
  serving_configs(*of, problem, serves);
  for (std::size_t i = 0; i < scores.size(); ++i) scores[i] = serves[i] != 0 ? all[i] : kUnserved;
}

std::vector<double> Model::score_configs(const GemmProblem& problem, const ConfigTable& configs) const {
  return score_configs(problem, configs, default_target());
}

std::vector<double> Model::score_configs(const GemmProblem& problem, const ConfigTable& configs,
                                         Target target) const {
  if (configs.empty()) return {};
  const Provider& of = kscout::provider(provider());
  const Signature signature = signature_of(problem);
  std::vector<Traits> traits;
  traits.reserve(configs.size());
  for (std::size_t i = 0; i < configs.size(); ++i)
    traits.push_back(of.traits(signature, configs[i], device()));
  return score_rows(problem, configs, traits, forest_of(target));
}

std::vector<double> Model::predicted_tflops(const GemmProblem& problem,
                                            std::span<const double> scores) const {
  return predicted_tflops(problem, default_target(), scores);
}

std::vector<double> Model::predicted_tflops(const GemmProblem& problem, Target target,
                                            std::span<const double> scores) const {
  const TargetForest& forest = forest_of(target);
  double best = 0, top = kUnserved;
  if (target == Target::relative || target == Target::rank) {
    std::vector<double> all(data_.schema->size()), row;
    data_.schema->evaluate_problem(problem, device(), all);
    for (const std::uint32_t feature : data_.best_features) row.push_back(all[feature]);
    best = data_.best_tflops.predict(row);
    if (!scores.empty()) top = *std::ranges::max_element(scores);
  }
  std::vector<double> tflops;
  tflops.reserve(scores.size());
  for (const double score : scores) {
    if (score == kUnserved) {
      tflops.push_back(0);
      continue;
    }
    const double claim = claimed_log_tflops(target, score, top, problem);
    tflops.push_back(std::exp(best + forest.offset + forest.slope * claim));
  }
  return tflops;
}

double claimed_log_tflops(Target target, double score, double top_score,
                          const GemmProblem& problem) noexcept {
  constexpr double kLeast = 1e-9;  // of what an extrapolating tree may claim: below it there is no logarithm
  switch (target) {
    case Target::tflops:
      return std::log(std::max(std::expm1(score), kLeast));
    case Target::latency:
      return std::log(std::max(flop_count(problem), 1.0) * 1e-6 / std::max(std::expm1(-score), kLeast));
    case Target::bandwidth: {
      const double us = least_bytes(problem) * 1e-3 / std::max(std::expm1(score), kLeast);
      return std::log(std::max(flop_count(problem), 1.0) * 1e-6 / std::max(us, kLeast));
    }
    case Target::relative:
      return score;
    case Target::rank:
      return score - top_score;
  }
  return score;
}

double time_us_of(const GemmProblem& problem, double tflops) noexcept {
  const double flops = flop_count(problem);
  if (!(flops > 0) || !(tflops > 0)) return std::numeric_limits<double>::quiet_NaN();
  return flops / tflops * 1e-6;
}

}  // namespace kscout
