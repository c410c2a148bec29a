#include "select/decision_table.h"

#include <algorithm>

#include <kscout/error.h>

#include "select/switches.h"

namespace kscout {
Choice timed_choice(ProblemRef problem, const KernelConfig& config, double time_us, double next_us) {
  Choice choice;
  choice.config = config;
  choice.time_us = time_us;
  choice.tflops = flop_count(problem) / time_us * 1e-6;
  choice.gb_s = least_bytes(problem) / time_us * 1e-3;
  choice.margin = next_us / time_us - 1;
  choice.source = choice.decided_by = ChoiceSource::db;
  return choice;
}

DecisionTable::DecisionTable(std::span<const StoredDecision> decisions, std::string_view of_provider,
                             std::span<const NamedConfig> disabled) {
  for (const StoredDecision& stored : decisions) {
    try {
      const Problem problem = parse_any_problem(stored.problem);
      NamedConfig named = parse_kernel_to_run(stored.config);
      const auto own = of_provider.empty() ? named.config : provider(of_provider).own(named.config);
      if (own) named.config = *own;
      const bool ours =
          own && same_but_accumulate(named.signature, signature_of(problem)) && stored.time_us > 0;
      const bool excluded = std::ranges::any_of(disabled, [&](const NamedConfig& one) {
        return one.config == named.config && same_but_accumulate(one.signature, named.signature);
      });
      if (ours && !excluded) {
        const Choice choice = timed_choice(problem, named.config, stored.time_us, stored.next_us);
        problem.visit([&](const auto& of) {
          const auto [known, added] = choices_of(*this, of).try_emplace(of, choice);
          if (!added && choice.time_us < known->second.time_us) known->second = choice;
        });
        continue;
      }
    } catch (const Error&) {  // written by a program with other names
    }
    ++passed_over_;
  }
}

const Choice* DecisionTable::find(ProblemRef problem) const noexcept {
  return problem.visit([this](const auto& of) -> const Choice* {
    const auto& choices = choices_of(*this, of);
    const auto found = choices.find(of);
    return found == choices.end() ? nullptr : &found->second;
  });
}

}  // namespace kscout
