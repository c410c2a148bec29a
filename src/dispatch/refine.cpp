#include "dispatch/refine.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/fail.h"
#include "core/log.h"
#include "family/listed.h"
#include "select/decision_db.h"

namespace kscout {

namespace {

/// Whether the library's first suggestion takes part besides the best.
enum class WithFirst : std::uint8_t { no, yes };

/// The solution's config and the next best configs that its backend accepts.
std::vector<Choice> contenders(Offers& offers, const Solution& solution, const Limits& limits,
                               WithFirst with_first = WithFirst::no) {
  const Problem& problem = solution.form.problem;
  Backend& backend = *solution.backend;
  std::vector<Choice> found = {solution.choice};
  const auto add = [&](const Choice& next) {
    const bool known = std::ranges::find(found, next.config, &Choice::config) != found.end();
    if (!known && offers.refusal(backend, problem, next.config).empty()) found.push_back(next);
  };
  std::optional<Choice> first;
  for (const Selector& selector : offers.contending(backend, signature_of(problem))) {
    try {
      for (const Choice& ranked : selector.rank(problem, kAll, By::best, limits)) {
        for (const Choice& next : offers.completed(backend, problem, ranked, limits)) {
          if (found.size() < offers.policy().refine.top) add(next);
          if (!first && is_first_suggestion(next.config)) first = next;
        }
      }
    } catch (const Error& error) {
      if (error.code() != Errc::unsupported) throw;
    }
  }
  if (first && with_first == WithFirst::yes) add(*first);
  return found;
}

/// Every config that a backend with access to the memory accepts.
std::vector<Candidate> all_candidates(Offers& offers, const Problem& problem, const MemorySpace& space,
                                      const Limits& limits) {
  std::vector<Candidate> candidates;
  for (const auto& backend : offers.registry().backends()) {
    if (backend->space() != space) continue;
    try {
      const Selector& selector = offers.selectors(*backend, signature_of(problem)).back();
      for (const Choice& choice : selector.rank(problem, kAll, By::best, limits)) {
        if (offers.refusal(*backend, problem, choice.config).empty())
          candidates.push_back({backend.get(), choice.config});
      }
    } catch (const Error& error) {
      if (error.code() != Errc::unsupported) throw;
    }
  }
  return candidates;
}

}  // namespace

bool Refiner::wants(const DispatchPolicy& policy, const Solution& solution) noexcept {
  const ChoiceSource who = solution.choice.decided_by;
  return policy.refine.top >= 2 && who != ChoiceSource::db && who != ChoiceSource::forced &&
         !solution.form.padded() && solution.form.calls == 1;
}

std::unique_ptr<Trial> Refiner::trial(Offers& offers, const Solution& solution, const Limits& limits) {
  const auto choices = contenders(offers, solution, limits, WithFirst::yes);
  return Trial::of(*solution.backend, solution.form.problem, choices, limits, offers.policy().refine.seconds);
}

void Refiner::settle(Offers& offers, const Trial& trial, const Fastest& fastest, Solution& solution,
                     const Limits& limits) {
  if (std::isnan(fastest.time_us)) {
    solution.choice = trial.choices()[fastest.index];
    return;
  }
  solution.choice = timed_choice(solution.form.problem, trial.candidates()[fastest.index].config,
                                 fastest.time_us, fastest.next_us);
  solution.model_config = {};
  solution.agreeing = 0;
  keep(offers.policy(), solution, fastest, trial.candidates(), limits);
}

void Refiner::refine(Offers& offers, const Buffers& buffers, Solution& solution, const Limits& limits) {
  const Problem& problem = solution.form.problem;
  const DispatchPolicy& policy = offers.policy();
  const auto choices = contenders(offers, solution, limits);
  const auto refined = fastest_on(*solution.backend, problem, choices, buffers, {policy.refine.seconds});
  if (!refined) return;
  solution.choice = timed_choice(problem, choices[refined->index].config, refined->time_us, refined->next_us);
  solution.model_config = {};
  solution.agreeing = 0;
  std::vector<Candidate> candidates;
  for (const Choice& choice : choices) candidates.push_back({solution.backend, choice.config});
  keep(policy, solution, *refined, candidates, limits);
}

std::optional<Solution> Refiner::measured(Offers& offers, const ExecutionForm& form, const MemorySpace& space,
                                          const Limits& limits) {
  const PlacedProblem placed{form.problem, space};
  auto& measured = measured_[print(limits)];
  if (const auto known = measured.find(placed); known != measured.end()) return known->second;
  const auto candidates = all_candidates(offers, form.problem, space, limits);
  std::optional<Solution> answer;
  if (const auto fastest = fastest_config(form.problem, candidates)) {
    const Candidate& candidate = candidates[fastest->index];
    const Choice choice = timed_choice(form.problem, candidate.config, fastest->time_us, fastest->next_us);
    answer = Solution{.choice = choice, .backend = candidate.backend, .form = form};
    keep(offers.policy(), *answer, *fastest, candidates, limits);
  }
  return measured.emplace(placed, answer).first->second;
}

void Refiner::keep(const DispatchPolicy& policy, const Solution& solution, const Fastest& fastest,
                   std::span<const Candidate> candidates, const Limits& limits) {
  if (policy.db.empty()) return;
  try {
    StoredDecision decision =
        decision_of(solution.form.problem, solution.choice.config, fastest, *solution.backend);
    decision.limits = print(limits);
    const Problem& problem = solution.form.problem;
    std::vector<StoredTiming> timings;
    for (const auto& [at, time_us] : fastest.times_us) {
      const std::string name = config_name(signature_of(problem), candidates[at].config);
      timings.push_back(timing_of(problem, name, time_us, *candidates[at].backend));
    }
    DecisionDb(policy.db).put(std::span(&decision, 1), timings);
  } catch (const Error& error) {
    // The choice is still valid; other processes will have to time the problem again.
    const std::string warning = fmt::format("decisions found by timing are lost: {}", error.what());
    if (const auto log = Log::from_environment()) log->line("warning: " + warning);
    if (std::ranges::find(warnings_, warning) == warnings_.end()) warnings_.push_back(warning);
  }
}

}  // namespace kscout
