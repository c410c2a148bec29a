#include "family/serve_reason.h"

#include <kscout/provider.h>

#include "family/serve_rules.h"

namespace kscout {

std::optional<Rule> refusing_rule(std::span<const Rule> rules, ProblemRef problem, const KernelConfig& config,
                                  const Device& device) {
  ConfigTable one(*config.space);
  one.push_back(config);
  const Traits traits = provider(config.space->provider).traits(signature_of(problem), config, device);
  ServeRules::Scratch scratch;
  for (const Rule& rule : rules) {
    const ServeRules asked(std::span(&rule, 1), one, std::span(&traits, 1), device);
    std::uint8_t serves = 0;
    asked.ask(problem, std::span(&serves, 1), scratch);
    if (serves == 0) return rule;
  }
  return std::nullopt;
}

}  // namespace kscout
