#include "forest/family_forest.h"

#include <algorithm>

#include "core/fail.h"

namespace kscout {

namespace {

std::vector<std::uint8_t> features_read(const Forest& forest, const Forest& of_problem,
                                        std::span<const std::uint32_t> features_of_problem,
                                        const Schema& schema) {
  if (forest.feature_count != schema.size() || of_problem.feature_count != features_of_problem.size()) {
    fail(Errc::invalid_argument, "a forest of {} features for schema '{}' of {}, one of {} for {} of them",
         forest.feature_count, schema.name(), schema.size(), of_problem.feature_count,
         features_of_problem.size());
  }
  std::vector<std::uint8_t> read(schema.size(), 0);
  for (const std::uint32_t feature : forest.feature) read[feature] = 1;
  for (const std::uint32_t feature : features_of_problem) read[feature] = 1;
  return read;
}

std::vector<ExactForest::Feature> feature_sources(const expr::FewRows& features,
                                                  std::span<const std::uint8_t> wanted) {
  std::vector<ExactForest::Feature> sources(wanted.size());
  for (std::size_t f = 0; f < wanted.size(); ++f) {
    if (wanted[f] != 0) sources[f] = {features.varies(f), features.fixed(f)};
  }
  return sources;
}

}  // namespace

FamilyForest::FamilyForest(const Forest& forest, const Forest& of_problem,
                           std::span<const std::uint32_t> features_of_problem, const Schema& schema,
                           const Family& family, std::size_t first_trees)
    : size_(family.configs.size()),
      features_of_problem_(features_of_problem.begin(), features_of_problem.end()),
      wanted_(features_read(forest, of_problem, features_of_problem, schema)),
      features_(schema.few_rows(family.device, family.configs, family.traits, wanted_)),
      forest_(forest, feature_sources(features_, wanted_)),
      of_problem_(of_problem,
                  std::vector<ExactForest::Feature>(features_of_problem.size(), {Varies::by_call})) {
  if (first_trees > 0)
    first_.emplace(kscout::first_trees(forest, first_trees), feature_sources(features_, wanted_));
  features_.forget_fixed();
}

bool FamilyForest::scores(ProblemRef problem, std::span<const std::uint32_t> configs, std::span<double> out,
                          Scratch& scratch) const {
  return scores_by(forest_, problem, configs, out, scratch);
}

bool FamilyForest::first_scores(ProblemRef problem, std::span<const std::uint32_t> configs,
                                std::span<double> out, Scratch& scratch) const {
  return scores_by(*first_, problem, configs, out, scratch);
}

bool FamilyForest::scores_by(const ExactForest& forest, ProblemRef problem,
                             std::span<const std::uint32_t> configs, std::span<double> out,
                             Scratch& scratch) const {
  if (!features_.set_problem(problem, scratch.features)) return false;
  scratch.values.resize(wanted_.size());
  for (std::size_t f = 0; f < wanted_.size(); ++f)
    scratch.values[f] = wanted_[f] != 0 ? features_.values(f, scratch.features) : nullptr;
  while (!configs.empty()) {
    const std::size_t count = std::min(configs.size(), ExactForest::block);
    features_.set_rows(configs.first(count), scratch.features);
    forest.scores(scratch.values, configs.first(count), out.first(count), scratch.ranks);
    configs = configs.subspan(count);
    out = out.subspan(count);
  }
  return true;
}

double FamilyForest::score_of_problem(Scratch& scratch) const {
  scratch.values.clear();
  for (const std::uint32_t f : features_of_problem_)
    scratch.values.push_back(features_.values(f, scratch.features));
  double score = 0;
  const std::uint32_t row = 0;
  of_problem_.scores(scratch.values, std::span(&row, 1), std::span(&score, 1), scratch.ranks);
  return score;
}

}  // namespace kscout
