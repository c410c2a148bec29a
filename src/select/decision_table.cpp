#include "select/decision_table.h"

#include <algorithm>

#include <kscout/error.h>

#include "select/switches.h"

namespace kscout {
namespace {

Choice choice_of(const StoredDecision& stored, const GemmProblem& problem, const KernelConfig& config) {
  Choice choice;
  choice.config = config;
  choice.time_us = stored.time_us;
  choice.tflops = flop_count(problem) / stored.time_us * 1e-6;
  choice.gb_s = least_bytes(problem) / stored.time_us * 1e-3;
  choice.margin = stored.next_us / stored.time_us - 1;
  choice.source = choice.decided_by = ChoiceSource::db;
  return choice;
}

}  // namespace

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
        choices_.emplace(problem, choice_of(stored, problem, named.config));
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
