#include "search/model_objective.h"

#include <algorithm>

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

}  // namespace kscout
