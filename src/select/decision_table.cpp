#include "select/decision_table.h"

#include <algorithm>

#include <kscout/error.h>

#include "select/switches.h"

namespace kscout {
Choice timed_choice(const GemmProblem& problem, const KernelConfig& config, double time_us, double next_us) {
  Choice choice;
  choice.config = config;
  choice.time_us = time_us;
  choice.tflops = flop_count(problem) / time_us * 1e-6;
  choice.gb_s = least_bytes(problem) / time_us * 1e-3;
  choice.margin = next_us / time_us - 1;
  choice.source = choice.decided_by = ChoiceSource::db;
  return choice;
}

DecisionTable::DecisionTable(std::span<const StoredDecision> decisions, std::string_view provider,
                             std::span<const NamedConfig> disabled) {
  for (const StoredDecision& stored : decisions) {
    try {
      const GemmProblem problem = parse_problem(stored.problem);
      const NamedConfig named = parse_config_name(stored.config);
      const bool ours = (provider.empty() || named.config.space->provider == provider) &&
                        same_but_accumulate(named.signature, signature_of(problem)) && stored.time_us > 0;
      const bool excluded = std::ranges::any_of(disabled, [&](const NamedConfig& one) {
        return one.config == named.config && same_but_accumulate(one.signature, named.signature);
      });
      if (ours && !excluded) {
        choices_.emplace(problem, timed_choice(problem, named.config, stored.time_us, stored.next_us));
        continue;
      }
    } catch (const Error&) {  // written by a program with other names
    }
    ++passed_over_;
  }
}

const Choice* DecisionTable::find(const GemmProblem& problem) const noexcept {
  const auto found = choices_.find(problem);
  return found == choices_.end() ? nullptr : &found->second;
}

}  // namespace kscout
