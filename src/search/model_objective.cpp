#include "search/model_objective.h"

#include <algorithm>
#include <cmath>

#include <kscout/provider.h>

#include "core/fail.h"

namespace kscout {

ConfigTable servable_configs(const Family& family, ProblemRef problem) {
  std::vector<std::uint8_t> serves(family.configs.size());
  serving_configs(family, problem, serves);
  ConfigTable configs(family.configs.space());
  for (std::size_t i = 0; i < serves.size(); ++i) {
    if (serves[i] != 0) configs.push_back(family.configs[i]);
  }
  if (configs.empty()) {
    fail(Errc::unsupported, "none of the {} configs of rule set '{}' can take {}", serves.size(),
         family.rules, print(problem));
  }
  return configs;
}

Objective model_objective(const Model& model, ProblemRef problem, const SearchSpace& space) {
  return [&model, problem, &space](std::span<const std::uint32_t> configs, std::span<double> scores) {
    ConfigTable asked(space.configs().space());
    for (const std::uint32_t config : configs) asked.push_back(space.configs()[config]);
    std::ranges::copy(model.score_configs(problem, asked), scores.begin());
  };
}

std::vector<double> analytic_prior(const Model& model, ProblemRef problem, const ConfigTable& configs) {
  const Schema& schema = *model.data().schema;
  const auto features = schema.features();
  const auto position = [&](std::string_view id) { return std::ranges::find(features, id, &Feature::id); };
  const bool as_share = position("analytic_time_us") == features.end();
  const auto found = position(as_share ? "analytic_share" : "analytic_time_us");
  if (found == features.end()) return {};
  const auto at = static_cast<std::uint32_t>(found - features.begin());
  const Provider& of = provider(model.provider());
  std::vector<Traits> traits;
  for (std::size_t i = 0; i < configs.size(); ++i)
    traits.push_back(of.traits(signature_of(problem), configs[i], model.device()));
  std::vector<double> prior(configs.size());
  schema.only({&at, 1}).evaluate(problem, model.device(), configs, traits, prior);
  for (double& value : prior) value = as_share ? std::log(value) : -std::log(value);
  return prior;
}

}  // namespace kscout
