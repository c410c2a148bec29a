#include "search/search_start.h"

#include <algorithm>
#include <cmath>

#include <kscout/provider.h>

#include "features/schema.h"

namespace kscout {

namespace {

constexpr std::size_t kShare = 20;  // one config of so many is timed
constexpr std::size_t kLeastWithModel = 16, kLeastWithout = 24;

std::size_t evaluations_of(std::size_t configs, std::size_t least) {
  return std::min(configs, std::max((configs + kShare - 1) / kShare, least));
}

std::vector<Traits> traits_of(ProblemRef problem, const ConfigTable& configs, const Device& device) {
  const Provider& of = provider(configs.space().provider);
  const Signature signature = signature_of(problem);
  std::vector<Traits> traits;
  for (std::size_t i = 0; i < configs.size(); ++i) traits.push_back(of.traits(signature, configs[i], device));
  return traits;
}

/// Positions of the configs that stand for whatever a vendor's library suggests, its first suggestion first;
/// those up to the `last` one.
std::vector<std::uint32_t> suggestions(const std::vector<Traits>& traits, double last) {
  std::vector<std::uint32_t> positions;
  for (std::uint32_t i = 0; i < traits.size(); ++i) {
    if (traits[i].suggestion >= 1 && traits[i].suggestion <= last) positions.push_back(i);
  }
  std::ranges::stable_sort(positions, {}, [&](std::uint32_t i) { return traits[i].suggestion; });
  return positions;
}

}  // namespace

SearchStart start_by_model(const Model& model, ProblemRef problem, const ConfigTable& configs) {
  SearchStart start;
  start.expected_us = model.predicted_tflops(problem, model.score_configs(problem, configs));
  for (double& value : start.expected_us) value = time_us_of(problem, value);
  const std::vector<Traits> traits = traits_of(problem, configs, model.device());
  for (const std::uint32_t any : suggestions(traits, HUGE_VAL)) start.expected_us[any] = Traits::unknown;
  start.first = suggestions(traits, 1);
  start.evaluations = evaluations_of(configs.size(), kLeastWithModel);
  start.in_order = start.evaluations / 2;
  return start;
}

SearchStart start_by_cost(ProblemRef problem, const ConfigTable& configs, const Device& device) {
  SearchStart start;
  const std::vector<Traits> traits = traits_of(problem, configs, device);
  start.expected_us.resize(configs.size());
  analytic_schema(signature_of(problem).op).evaluate(problem, device, configs, traits, start.expected_us);
  start.first = suggestions(traits, HUGE_VAL);
  start.evaluations = evaluations_of(configs.size(), kLeastWithout);
  return start;
}

}  // namespace kscout
