#include "sweep/guided.h"

#include <unordered_set>

#include <kscout/selector.h>

#include "core/fail.h"
#include "family/rules.h"
#include "select/model.h"

namespace kscout {

Narrow guided_by(const GuidedBy& by, const PlanRequest& request, const Device& device) {
  if (const std::string of = model_provider(by.model); of != request.provider)
    fail(Errc::invalid_argument, "--model {}: its configs are of provider {}, the sweep is of {}", by.model,
         of, request.provider);
  const Selector selector =
      Selector::load(by.model, {.provider = request.provider, .device = device, .rules = request.rules});
  return [=](ProblemRef problem, const Family& family, std::vector<std::uint8_t>& measured) {
    std::unordered_set<KernelConfig> best;
    for (const Choice& choice : selector.rank(problem, by.top)) best.insert(choice.config);
    std::vector<KernelConfig> configs;
    for (std::size_t i = 0; i < family.configs.size(); ++i) configs.push_back(family.configs[i]);
    const auto also = by.also.empty()
                          ? std::vector<bool>(configs.size())
                          : holding_configs({"--also", by.also}, configs, family.device, family.signature);
    for (std::size_t i = 0; i < configs.size(); ++i) measured[i] &= best.contains(configs[i]) || also[i];
  };
}

}  // namespace kscout
