#include "dispatch/solver.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include <kscout/provider.h>

#include "core/fail.h"
#include "core/log.h"
#include "dispatch/any_address.h"
#include "dispatch/padding.h"
#include "dispatch/timed_choice.h"
#include "op/operation.h"
#include "select/class_table.h"
#include "select/decision_db.h"
#include "select/model.h"

namespace kscout {

namespace {

constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();

/// How much is known of the chosen config's time: 0 measured or predicted for this device, 1 predicted by a
/// model of other CPUs, 2 a rough cost. Times are compared with their like only.
int uncertainty(const Choice& choice) {
  if (choice.decided_by == ChoiceSource::model || choice.decided_by == ChoiceSource::db) return 0;
  return choice.decided_by == ChoiceSource::any_cpu ? 1 : 2;
}

/// Whether the choice of one backend is preferred to that of another.
bool is_better(const Choice& a, const Choice& b) {
  const auto key = [](const Choice& choice) {
    const bool timed = !std::isnan(choice.time_us);
    return std::tuple(uncertainty(choice), timed ? choice.time_us : std::numeric_limits<double>::infinity());
  };
  return key(a) < key(b);
}

/// "fp64 (float64)": the name that arrays of other packages use, too.
std::string type_with_float_name(DType dtype) {
  const std::string_view name = word(dtype);
  if (name.starts_with("bf16")) return "bf16 (bfloat16)";
  return name.starts_with("fp") ? fmt::format("{} (float{})", name, name.substr(2)) : std::string(name);
}

/// SelectorRequest::breaks of a backend: prepares the config.
auto breaks_of(Backend& backend) {
  return [&backend](ProblemRef problem, const KernelConfig& config, const Limits& limits) -> std::string {
    // Those are refused or completed when they are chosen.
    if (!backend.executes(config.space->provider) || !is_complete(config)) return {};
    try {
      backend.prepare_within(problem, config, limits);
      return {};
    } catch (const Error& error) {
      if (error.code() != Errc::unsupported) throw;
      return error.what();
    }
  };
}

/// What the copies of a form leave of the limits; nothing when they need more.
std::optional<Limits> within_form(ProblemRef problem, const ExecutionForm& form, Limits limits) {
  if (limits.workspace_bytes < 0) return limits;
  limits.workspace_bytes -= static_cast<std::int64_t>(copies_bytes(problem, form));
  return limits.workspace_bytes < 0 ? std::nullopt : std::optional(limits);
}

}  // namespace

std::shared_ptr<const Family> Solver::Families::of(Backend& backend, const Signature& signature) {
  const std::lock_guard lock(mutex_);
  for (const Known& known : known_) {
    if (known.backend == &backend && known.signature == signature) return known.family;
  }
  auto family = std::make_shared<const Family>(backend.family(signature, rules_));
  known_.push_back({&backend, signature, family});
  return family;
}

std::string Solver::Families::absence(Backend& backend, const Signature& signature,
                                      const KernelConfig& config) {
  if (!backend.executes(config.space->provider)) return {};
  std::string why = backend.absence(signature, config);
  if (why.empty() || is_complete(config)) return why;
  try {
    const auto family = of(backend, signature);
    for (std::size_t i = 0; i < family->configs.size(); ++i) {
      const KernelConfig own = family->configs[i];
      if (agree(own, config) && backend.absence(signature, own).empty()) return {};
    }
  } catch (const Error& error) {  // the backend has no kernels of the signature
    if (error.code() != Errc::unsupported) throw;
  }
  return why;
}

Solver::Solver(Registry registry, DispatchPolicy policy)
    : registry_(std::move(registry)),
      policy_(std::move(policy)),
      families_(std::make_shared<Families>(policy_.rules)) {
  if (policy_.threads < 0)
    fail(Errc::invalid_argument, "threads={}: must be at least 1, or 0 for the default limit",
         policy_.threads);
  if (policy_.calls < 0)
    fail(Errc::invalid_argument, "calls={}: must be at least 1, or 0 to charge no set-up", policy_.calls);
  if (!(policy_.refine.seconds >= 0))
    fail(Errc::invalid_argument, "refinement of {} seconds: must be at least 0", policy_.refine.seconds);
  kscout::check(policy_.limits);
  if (policy_.limits.batch_invariant && (policy_.refine.top >= 2 || policy_.fallback == Fallback::exhaustive))
    fail(Errc::invalid_argument,
         "policy batch-invariant takes what `kscout classes` timed: refinement and an exhaustive fallback "
         "have "
         "no effect; leave them out");
}

Limits Solver::limits_with(const Limits& of_call) const {
  kscout::check(of_call);
  return both(policy_.limits, of_call);
}

MemorySpace Solver::space_or_first(const std::optional<MemorySpace>& space) const {
  if (space) return *space;
  return registry_.backends().empty() ? MemorySpace{} : registry_.backends().front()->space();
}

void Solver::check_reachable(const MemorySpace& space) const {
  std::string reached;
  for (const auto& backend : registry_.backends()) {
    if (backend->space() == space) return;
    reached +=
        fmt::format("{}{} reaches {}", reached.empty() ? "" : ", ", backend->name(), print(backend->space()));
  }
  fail(Errc::invalid_argument,
       "the operands are in memory {}, which no backend here reaches ({}); copy them, or register a backend "
       "or a "
       "kernel library that does (buffers say in `space` where they are)",
       print(space), reached.empty() ? "there is no backend" : reached);
}

Backend& Solver::backend_of(ProblemRef problem, const KernelConfig& config,
                            const std::optional<MemorySpace>& space) {
  const Registry::Support support = registry_.supports(problem, config, space);
  if (!support.backend) fail(Errc::unsupported, "{}: {}", print(problem), support.refusal);
  if (const std::string why = thread_refusal(*support.backend, config); !why.empty())
    fail(Errc::unsupported, "{}: {}", print(problem), why);
  return *support.backend;
}

std::string Solver::thread_refusal(Backend& backend, const KernelConfig& config) {
  const int threads = host_threads(config);
  if (threads <= 1) return {};
  auto limit = limits_.find(&backend);
  if (limit == limits_.end())
    limit = limits_.emplace(&backend, thread_limit(policy_.threads, backend.device())).first;
  return limit->second.admits(threads) ? std::string() : limit->second.refusal(threads);
}

Solver::Solver(Selector selector, Registry registry, DispatchPolicy policy)
    : Solver(std::move(registry), std::move(policy)) {
  fixed_.emplace().push_back(std::move(selector));
}

Solver::Selectors& Solver::selectors(Backend& backend, const Signature& signature) {
  if (fixed_) return *fixed_;
  const auto key = std::tuple(&backend, signature.op, signature.dtype_a);
  if (const auto known = found_.find(key); known != found_.end()) return known->second;
  Selectors chain;
  const auto executes = [&](std::string_view provider) { return backend.executes(provider); };
  if (const auto model = find_model_or_any_cpu(signature.op, signature.dtype_a, backend.device(), executes)) {
    chain.push_back(Selector::load(
        *model, {.provider = std::string(backend.provider_for(signature.op)),
                 .device = backend.device(),
                 .rules = policy_.rules,
                 .db = policy_.db,
                 .backend = std::string(backend.name()),
                 .absence =
                     [&backend, families = families_](const Signature& of, const KernelConfig& config) {
                       return families->absence(backend, of, config);
                     },
                 .threads = policy_.threads,
                 .calls = policy_.calls,
                 .breaks = breaks_of(backend),
                 .classes = policy_.classes,
                 .library = library_release(backend)}));
  }
  chain.push_back(analytic(backend));
  return found_.emplace(key, std::move(chain)).first->second;
}

const Selector& Solver::analytic(Backend& backend) {
  if (const auto known = analytic_.find(&backend); known != analytic_.end()) return known->second;
  Selector made = Selector::analytic(
      {.device = backend.device(),
       .db = policy_.db,
       .backend = std::string(backend.name()),
       .threads = policy_.threads,
       .breaks = breaks_of(backend),
       .classes = policy_.classes,
       .library = library_release(backend)},
      [&backend, families = families_](const Signature& of) { return *families->of(backend, of); });
  return analytic_.emplace(&backend, std::move(made)).first->second;
}

std::vector<Choice> Solver::completed(Backend& backend, ProblemRef problem, const Choice& choice,
                                      const Limits& limits) {
  const KernelConfig& known = choice.config;
  if (is_complete(known) || !backend.executes(known.space->provider) ||
      backend.absence(signature_of(problem), known).empty()) {
    return {choice};
  }
  std::vector<Choice> agreeing;
  try {
    agreeing = analytic(backend).rank(problem, kAll, By::best, limits);
  } catch (const Error& error) {  // no kernel of the backend applies
    if (error.code() != Errc::unsupported) throw;
  }
  std::erase_if(agreeing, [&](const Choice& own) { return !agree(own.config, known); });
  const Provider& of = provider(known.space->provider);
  const auto width = [&](const Choice& own) {
    return of.traits(signature_of(problem), own.config, backend.device()).vector_elements;
  };
  // A stored timing comes first and has no score.
  const auto scored =
      std::ranges::find_if(agreeing, [](const Choice& own) { return !std::isnan(own.score); });
  std::stable_sort(scored, agreeing.end(), [&](const Choice& a, const Choice& b) {
    return a.score != b.score ? a.score > b.score : width(a) > width(b);
  });
  for (Choice& own : agreeing) {
    const KernelConfig config = own.config;
    own = choice;
    own.config = config;
  }
  return agreeing;
}

const Solver::Refused* Solver::find_refused(std::span<const Refused> refused, const Backend& backend,
                                            const KernelConfig& config, const Problem& problem) {
  const auto found = std::ranges::find_if(refused, [&](const Refused& one) {
    return one.backend == &backend && one.config == config && one.problem == problem;
  });
  return found == refused.end() ? nullptr : &*found;
}

std::optional<Solver::BackendChoice> Solver::offer_of(Backend& backend, ProblemRef problem,
                                                      const Limits& limits, std::span<const Refused> refused,
                                                      std::string& why) {
  const Problem asked = problem.value();
  const auto objection = [&](const Choice& choice) -> std::string {
    if (const Refused* const earlier = find_refused(refused, backend, choice.config, asked))
      return earlier->reason;
    std::string why_not = backend.refusal(problem, choice.config);
    return why_not.empty() ? thread_refusal(backend, choice.config) : why_not;
  };
  // The choice, or the first config that completes it, to which nothing objects; else the reason in `text`.
  const auto accepted = [&](const Choice& choice, std::string& text) -> std::optional<BackendChoice> {
    const std::vector<Choice> all = completed(backend, problem, choice, limits);
    for (const Choice& one : all) {
      std::string objected = objection(one);
      if (objected.empty()) {
        if (one.config == choice.config) return BackendChoice{one, &backend};
        return BackendChoice{one, &backend, choice.config, all.size()};
      }
      if (text.empty()) text = std::move(objected);
    }
    if (all.empty()) text = objection(choice);
    return std::nullopt;
  };
  std::string foreign;
  for (const Selector& selector : selectors(backend, signature_of(problem))) {
    try {
      const Choice first = selector.select(problem, By::best, limits);
      if (const std::string_view of = first.config.space->provider; !backend.executes(of)) {
        foreign = fmt::format("the selector chooses kernels of '{}' for '{}', and backend {} executes '{}'",
                              of, selector.device().name, backend.name(),
                              backend.provider_for(signature_of(problem).op));
        continue;
      }
      std::string text, ignored;
      if (const auto choice = accepted(first, text)) return choice;
      if (why.empty()) why = fmt::format("{}: {}", Selector::name(problem, first), text);
      for (const Choice& next : selector.rank(problem, kAll, By::best, limits)) {
        if (next.config == first.config) continue;
        if (const auto choice = accepted(next, ignored)) return choice;
      }
    } catch (const Error& error) {
      if (error.code() != Errc::unsupported) throw;
      if (why.empty()) why = error.what();
    }
  }
  if (why.empty()) why = foreign;
  return std::nullopt;
}

std::optional<Solver::BackendChoice> Solver::best_backend_choice(ProblemRef problem, const MemorySpace& space,
                                                                 bool applicable_only, const Limits& limits,
                                                                 std::span<const Refused> refused,
                                                                 std::string& why) {
  std::optional<BackendChoice> best;
  for (const auto& backend : registry_.backends()) {
    if (backend->space() != space) continue;
    if (applicable_only && !has_applicable(*backend, problem)) continue;
    const auto offer = offer_of(*backend, problem, limits, refused, why);
    if (offer && (!best || is_better(offer->choice, best->choice))) best = offer;
  }
  return best;
}

bool Solver::has_applicable(Backend& backend, ProblemRef problem) {
  const Signature signature = signature_of(problem);
  auto found = std::ranges::find_if(
      asked_, [&](const Asked& one) { return one.backend == &backend && one.signature == signature; });
  if (found == asked_.end()) {
    asked_.push_back({&backend, signature, nullptr, nullptr});
    found = asked_.end() - 1;
    try {
      found->family = families_->of(backend, signature);
      const Family& family = *found->family;
      found->rules = std::make_unique<ApplicabilityRules>(family.applicability, family.configs, family.traits,
                                                          family.device);
    } catch (const Error& error) {
      if (error.code() != Errc::unsupported) throw;
    }
  }
  if (!found->rules) return false;
  std::vector<std::uint8_t> answers(found->rules->configs());
  ApplicabilityRules::Scratch scratch;
  found->rules->evaluate(problem, answers, scratch);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (answers[i] != 0 && backend.absence(signature, found->family->configs[i]).empty()) return true;
  }
  return false;
}

std::string Solver::type_remedy(ProblemRef problem, const MemorySpace& space) {
  constexpr GivenField kSingle[] = {{"dtype", word(DType::fp32)}};
  const Problem single = operation(problem.kind()).with_fields(problem.value(), kSingle);
  const Signature signature = signature_of(problem);
  if (signature_of(single) == signature) return {};
  const auto is_taken = [&](ProblemRef form) {
    std::string ignored;
    return best_backend_choice(form, space, true, {}, {}, ignored).has_value();
  };
  const auto forms = padded_forms(single, space.kind);
  if (!is_taken(single) && !std::ranges::any_of(forms, is_taken, &ExecutionForm::problem)) return {};
  DType other = signature.dtype_c;
  for (const DType dtype : {signature.dtype_b, signature.dtype_a}) {
    if (dtype != DType::fp32) other = dtype;
  }
  return fmt::format("; kernels here take fp32, not {}: convert to float32", type_with_float_name(other));
}

std::optional<Solution> Solver::measured(const ExecutionForm& form, const MemorySpace& space,
                                         const Limits& limits) {
  const PlacedProblem placed{form.problem, space};
  auto& measured = measured_[print(limits)];
  if (const auto known = measured.find(placed); known != measured.end()) return known->second;
  std::vector<Candidate> candidates;
  for (const auto& backend : registry_.backends()) {
    if (backend->space() != space) continue;
    try {
      const Selector& selector = selectors(*backend, signature_of(form.problem)).back();
      for (const Choice& choice : selector.rank(form.problem, kAll, By::best, limits)) {
        if (backend->refusal(form.problem, choice.config).empty() &&
            thread_refusal(*backend, choice.config).empty()) {
          candidates.push_back({backend.get(), choice.config});
        }
      }
    } catch (const Error& error) {
      if (error.code() != Errc::unsupported) throw;
    }
  }
  std::optional<Solution> answer;
  if (const auto fastest = fastest_config(form.problem, candidates)) {
    const Candidate& candidate = candidates[fastest->index];
    const Choice choice = timed_choice(form.problem, candidate.config, fastest->time_us, fastest->next_us);
    answer = Solution{.choice = choice, .backend = candidate.backend, .form = form};
    keep(*answer, *fastest, candidates, limits);
  }
  return measured.emplace(placed, answer).first->second;
}

bool Solver::is_suggestion(const BackendChoice& offer, ProblemRef problem) {
  const KernelConfig& config = offer.choice.config;
  const Traits traits =
      provider(config.space->provider).traits(signature_of(problem), config, offer.backend->device());
  return traits.suggestion > 0;
}

std::optional<Solver::BackendChoice> Solver::any_address_offer(Backend& backend, ProblemRef problem,
                                                               const Limits& limits,
                                                               std::span<const Refused> refused,
                                                               double below_us) {
  for (const Choice& choice : any_address_choices(problem, backend.device())) {
    if (!(choice.time_us < below_us)) break;
    if (backend.executes(choice.config.space->provider) &&
        !find_refused(refused, backend, choice.config, problem.value()) &&
        backend.refusal(problem, choice.config).empty() &&
        (!limits.any() || breaks_of(backend)(problem, choice.config, limits).empty())) {
      return BackendChoice{choice, &backend};
    }
  }
  return std::nullopt;
}

void Solver::prefer_aligned(ProblemRef problem, const MemorySpace& space, const Limits& limits,
                            std::span<const Refused> refused, OperandB b, std::optional<BackendChoice>& best,
                            ExecutionForm& form) {
  // Predictions of two forms have errors of up to a seventh.
  constexpr double kClearly = 0.85;
  if (space.kind == MemoryKind::host) return;
  const auto forms = aligned_forms(problem);
  if (forms.empty()) return;
  const bool timed = uncertainty(best->choice) == 0;
  const double at_least_us = best->backend->min_us(problem, best->choice.config);
  double least_us = kClearly * (timed ? std::max(best->choice.time_us, at_least_us) : at_least_us);
  if (auto own = any_address_offer(*best->backend, problem, limits, refused, least_us)) {
    best = std::move(own);
    least_us = best->choice.time_us;
  }
  if (!timed) return;
  const auto computes = [&](const BackendChoice& offer, const Problem& other) {
    const KernelConfig& config = offer.choice.config;
    return !find_refused(refused, *offer.backend, config, other) &&
           offer.backend->refusal(other, config).empty() &&
           rule_verdict(other, config, offer.backend->device()).status != VerdictStatus::refused;
  };
  for (const auto& [aligned, chosen_for] : forms) {
    const ExecutionForm other = b == OperandB::packed_once ? with_packed_b(problem, aligned) : aligned;
    const auto left = within_form(problem, other, limits);
    if (!left || copies_bytes(problem, other) > policy_.copies_bytes) continue;
    std::string ignored;
    auto offer = best_backend_choice(chosen_for, space, true, *left, refused, ignored);
    if (other.problem != chosen_for) {
      // A suggestion is for the problem of which the library is asked, here the one with gaps.
      std::vector<Refused> also(refused.begin(), refused.end());
      while (offer && is_suggestion(*offer, chosen_for)) {
        also.push_back({offer->backend, chosen_for, offer->choice.config, "suggested for another problem"});
        offer = best_backend_choice(chosen_for, space, true, *left, also, ignored);
      }
    }
    if (!offer || uncertainty(offer->choice) > 0) continue;
    if (other.problem != chosen_for && !computes(*offer, other.problem)) continue;
    const double us = offer->choice.time_us + predicted_copies_us(other, offer->backend->device());
    if (!(us < least_us)) continue;
    best = offer;
    form = other;
    least_us = us;
  }
}

Solution Solver::solve(ProblemRef problem, const MemorySpace& space, const Limits& limits,
                       std::span<const Refused> refused, OperandB b) {
  check(problem);
  check_reachable(space);
  std::string why;
  ExecutionForm form = direct_form(problem);
  const Problem direct = form.problem;
  auto best = best_backend_choice(problem, space, false, limits, refused, why);
  if (limits.batch_invariant) {
    // Any other form, and so any other order of sums, would depend on M.
    if (!best) fail(Errc::unsupported, "{}", why);
  } else if (best) {
    prefer_aligned(problem, space, limits, refused, b, best, form);
  } else {
    for (const ExecutionForm& other : padded_forms(problem, space.kind)) {
      form = b == OperandB::packed_once ? with_packed_b(problem, other) : other;
      const auto left = within_form(problem, form, limits);
      if (!left) continue;
      if ((best = best_backend_choice(form.problem, space, form.problem != direct, *left, refused, why)))
        break;
    }
  }
  if (!best)
    fail(Errc::unsupported, "{}: no kernel here takes it, padded or not{}: {}", print(problem),
         limits.any() ? fmt::format(", within the limits {}", print(limits)) : type_remedy(problem, space),
         why);
  if (policy_.fallback == Fallback::exhaustive && uncertainty(best->choice) > 0 && refused.empty()) {
    if (auto answer = measured(form, space, within_form(problem, form, limits).value_or(limits))) {
      answer->form = form;
      return *answer;
    }
  }
  return {best->choice,       best->backend,  form,
          best->model_config, best->agreeing, predicted_copies_us(form, best->backend->device())};
}

bool Solver::wants_refinement(const Solution& solution) const noexcept {
  const ChoiceSource who = solution.choice.decided_by;
  return policy_.refine.top >= 2 && who != ChoiceSource::db && who != ChoiceSource::forced &&
         !solution.form.padded() && solution.form.calls == 1;
}

std::vector<Choice> Solver::contenders(const Solution& solution, const Limits& limits) {
  const Problem& problem = solution.form.problem;
  std::vector<Choice> found = {solution.choice};
  for (const Selector& selector : selectors(*solution.backend, signature_of(problem))) {
    try {
      for (const Choice& ranked : selector.rank(problem, kAll, By::best, limits)) {
        for (const Choice& next : completed(*solution.backend, problem, ranked, limits)) {
          if (found.size() >= policy_.refine.top) return found;
          const bool known = std::ranges::find(found, next.config, &Choice::config) != found.end();
          if (!known && solution.backend->refusal(problem, next.config).empty() &&
              thread_refusal(*solution.backend, next.config).empty()) {
            found.push_back(next);
          }
        }
      }
    } catch (const Error& error) {
      if (error.code() != Errc::unsupported) throw;
    }
  }
  return found;
}

void Solver::refine(const Buffers& buffers, Solution& solution, const Limits& limits) {
  const Problem& problem = solution.form.problem;
  const auto choices = contenders(solution, limits);
  const auto refined = fastest_on(*solution.backend, problem, choices, buffers, {policy_.refine.seconds});
  if (!refined) return;
  solution.choice = timed_choice(problem, choices[refined->index].config, refined->time_us, refined->next_us);
  solution.model_config = {};
  solution.agreeing = 0;
  std::vector<Candidate> candidates;
  for (const Choice& choice : choices) candidates.push_back({solution.backend, choice.config});
  keep(solution, *refined, candidates, limits);
}

void Solver::keep(const Solution& solution, const Fastest& fastest, std::span<const Candidate> candidates,
                  const Limits& limits) {
  if (policy_.db.empty()) return;
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
    DecisionDb(policy_.db).put(std::span(&decision, 1), timings);
  } catch (const Error& error) {
    // The choice is still valid; other processes will have to time the problem again.
    const std::string warning = fmt::format("decisions found by timing are lost: {}", error.what());
    if (const auto log = Log::from_environment()) log->line("warning: " + warning);
    if (std::ranges::find(warnings_, warning) == warnings_.end()) warnings_.push_back(warning);
  }
}

std::unique_ptr<Launch> Solver::make_ready(ProblemRef problem, Solution& solution, const Limits& limits,
                                           OperandB b) {
  std::vector<Refused> refused;
  for (;;) {
    try {
      const Problem& of = solution.form.problem;
      const KernelConfig& config = solution.choice.config;
      auto inner = limits.any()
                       ? solution.backend->prepare_within(
                             of, config, within_form(problem, solution.form, limits).value_or(limits))
                       : solution.backend->prepare(of, config);
      return padded_launch(problem, solution.form, std::move(inner), solution.backend->memory());
    } catch (const Error& error) {
      if (error.code() != Errc::unsupported) throw;
      refused.push_back({solution.backend, solution.form.problem, solution.choice.config, error.what()});
    }
    solution = solve(problem, solution.backend->space(), limits, refused, b);
  }
}

}  // namespace kscout
