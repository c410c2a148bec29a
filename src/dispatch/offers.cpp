#include "dispatch/offers.h"

#include <algorithm>
#include <cmath>

#include <kscout/provider.h>

#include "core/fail.h"
#include "dispatch/any_address.h"
#include "select/class_table.h"
#include "select/model.h"

namespace kscout {

namespace {

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

}  // namespace

int uncertainty(const Choice& choice) noexcept {
  if (choice.decided_by == ChoiceSource::model || choice.decided_by == ChoiceSource::db) return 0;
  return choice.decided_by == ChoiceSource::any_cpu ? 1 : 2;
}

const Refused* find_refused(std::span<const Refused> refused, const Backend& backend,
                            const KernelConfig& config, const Problem& problem) {
  const auto found = std::ranges::find_if(refused, [&](const Refused& one) {
    return one.backend == &backend && one.config == config && one.problem == problem;
  });
  return found == refused.end() ? nullptr : &*found;
}

Offers::Offers(Registry registry, DispatchPolicy policy, std::optional<Selector> only)
    : registry_(std::move(registry)),
      policy_(std::move(policy)),
      families_(std::make_shared<Families>(policy_.rules)) {
  if (only) only_.emplace().push_back(std::move(*only));
}

std::optional<Offer> Offers::of(Backend& backend, ProblemRef problem, const Limits& limits,
                                std::span<const Refused> refused, std::string& why) {
  const Problem asked = problem.value();
  const auto objection = [&](const Choice& choice) -> std::string {
    if (const Refused* const earlier = find_refused(refused, backend, choice.config, asked))
      return earlier->reason;
    return refusal(backend, problem, choice.config);
  };
  // The choice, or the first config that completes it, to which nothing objects; else the reason in `text`.
  const auto accepted = [&](const Choice& choice, std::string& text) -> std::optional<Offer> {
    const std::vector<Choice> all = completed(backend, problem, choice, limits);
    for (const Choice& one : all) {
      std::string objected = objection(one);
      if (objected.empty()) {
        if (one.config == choice.config) return Offer{one, &backend};
        return Offer{one, &backend, choice.config, all.size()};
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

std::optional<Offer> Offers::at_any_address(Backend& backend, ProblemRef problem, const Limits& limits,
                                            std::span<const Refused> refused, double below_us) {
  for (const Choice& choice : any_address_choices(problem, backend.device())) {
    if (!(choice.time_us < below_us)) break;
    if (backend.executes(choice.config.space->provider) &&
        !find_refused(refused, backend, choice.config, problem.value()) &&
        backend.refusal(problem, choice.config).empty() &&
        (!limits.any() || breaks_of(backend)(problem, choice.config, limits).empty())) {
      return Offer{choice, &backend};
    }
  }
  return std::nullopt;
}

bool Offers::has_applicable(Backend& backend, ProblemRef problem) {
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

Offers::Selectors& Offers::selectors(Backend& backend, const Signature& signature) {
  if (only_) return *only_;
  const auto key = std::tuple(&backend, signature.op, signature.dtype_a);
  if (const auto known = found_.find(key); known != found_.end()) return known->second;
  Selectors chain;
  const auto executes = [&](std::string_view provider) { return backend.executes(provider); };
  auto model = find_model_or_any_cpu(signature.op, signature.dtype_a, backend.device(), executes);
  if (!model) model = model_of_another_gpu(backend, signature, DevicePolicy::same_arch);
  if (model) chain.push_back(load(*model, backend, signature, DevicePolicy::same_arch));
  chain.push_back(analytic(backend));
  return found_.emplace(key, std::move(chain)).first->second;
}

Offers::Selectors Offers::contending(Backend& backend, const Signature& signature) {
  Selectors chain = selectors(backend, signature);
  if (only_ || chain.size() > 1) return chain;
  const auto key = std::tuple(&backend, signature.op, signature.dtype_a);
  auto found = foreign_.find(key);
  if (found == foreign_.end()) {
    const auto model = model_of_another_gpu(backend, signature, DevicePolicy::any);
    found = foreign_.emplace(key, Selectors()).first;
    if (model) found->second.push_back(load(*model, backend, signature, DevicePolicy::any));
  }
  chain.insert(chain.begin(), found->second.begin(), found->second.end());
  return chain;
}

std::optional<std::filesystem::path> Offers::model_of_another_gpu(Backend& backend,
                                                                  const Signature& signature,
                                                                  DevicePolicy policy) {
  if (backend.device().kind != DeviceKind::gpu) return std::nullopt;
  auto model = find_model(signature.op, signature.dtype_a, backend.device(), policy);
  if (model && !backend.executes(model_provider(*model))) model.reset();
  return model;
}

Selector Offers::load(const std::filesystem::path& model, Backend& backend, const Signature& signature,
                      DevicePolicy devices) {
  return Selector::load(
      model, {.provider = std::string(backend.provider_for(signature.op)),
              .device = backend.device(),
              .rules = policy_.rules,
              .devices = devices,
              .db = policy_.db,
              .backend = std::string(backend.name()),
              .absence = [&backend, families = families_](
                             const Signature& of,
                             const KernelConfig& config) { return families->absence(backend, of, config); },
              .suggestions = suggestions_of(backend),
              .threads = policy_.threads,
              .calls = policy_.calls,
              .breaks = breaks_of(backend),
              .classes = policy_.classes,
              .library = library_release(backend)});
}

const Selector& Offers::analytic(Backend& backend) {
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

std::vector<Choice> Offers::completed(Backend& backend, ProblemRef problem, const Choice& choice,
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

std::string Offers::refusal(Backend& backend, ProblemRef problem, const KernelConfig& config) {
  std::string why = backend.refusal(problem, config);
  return why.empty() ? thread_refusal(backend, config) : why;
}

std::string Offers::thread_refusal(Backend& backend, const KernelConfig& config) {
  const int threads = host_threads(config);
  if (threads <= 1) return {};
  auto limit = limits_.find(&backend);
  if (limit == limits_.end())
    limit = limits_.emplace(&backend, thread_limit(policy_.threads, backend.device())).first;
  return limit->second.admits(threads) ? std::string() : limit->second.refusal(threads);
}

std::shared_ptr<const Family> Offers::Families::of(Backend& backend, const Signature& signature) {
  const std::lock_guard lock(mutex_);
  for (const Known& known : known_) {
    if (known.backend == &backend && known.signature == signature) return known.family;
  }
  auto family = std::make_shared<const Family>(backend.family(signature, rules_));
  known_.push_back({&backend, signature, family});
  return family;
}

std::string Offers::Families::absence(Backend& backend, const Signature& signature,
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

}  // namespace kscout
