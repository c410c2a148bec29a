#include "select/fallback_chain.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <mutex>

#include <fmt/format.h>

#include <kscout/provider.h>
#include <kscout/version.h>

#include "core/fail.h"
#include "family/family_file.h"
#include "family/listed.h"
#include "family/rules.h"
#include "provider/cublaslt/cublaslt.h"

namespace kscout {
namespace {

NameSpace names_of(const SelectorRequest& request, const std::optional<LoadedModel>& model) {
  if (!model) return {request.provider, request.device, nullptr, request.rules};
  return {std::string(model->model.provider()), request.device, &model->model, request.rules};
}

/// A family of one config. Its applicability rules are those of the model's family, or else of the family
/// source.
Family family_of_one(const FallbackInputs& base, const Model* model, const NamedConfig& named) {
  const Family* const known = model ? model->family(named.signature) : nullptr;
  Family family = known ? *known : base.families(named.signature);
  if (&family.configs.space() != named.config.space) {
    fail(Errc::unsupported, "a config of {} among those of {}", named.config.space->provider,
         family.provider);
  }
  family.signature = named.signature;
  family.configs = ConfigTable(*named.config.space);
  family.configs.push_back(named.config);
  family.traits = {provider(family.provider).traits(named.signature, named.config, family.device)};
  family.default_config = 0;
  return family;
}

Choice choice_of(ProblemRef problem, const KernelConfig& config, const Ranked& ranked, ChoiceSource source) {
  Choice choice;
  choice.config = config;
  choice.score = ranked.score;
  choice.tflops = ranked.tflops;
  choice.time_us = ranked.time_us;
  choice.gb_s = min_bytes(problem) / ranked.time_us * 1e-3;
  choice.setup_us = static_cast<float>(ranked.setup_us);
  choice.source = choice.decided_by = source;
  return choice;
}

/// The conditions of classes for a request: those of this release's own kernels where it names no backend.
ClassOrigin class_origin(const SelectorRequest& request) {
  const bool own_kernels =
      request.library.empty() && request.backend.empty() && request.device.kind == DeviceKind::cpu;
  return {device_identity(request.device), request.backend,
          own_kernels ? fmt::format("kscout={}", KSCOUT_VERSION) : request.library};
}

/// The position of a config in a family.
std::optional<std::uint32_t> position_in(const Family& family, const KernelConfig& config) {
  if (&family.configs.space() != config.space) return std::nullopt;
  const auto first = family.configs.column(0);
  for (std::uint32_t i = 0; i < first.size(); ++i) {
    if (first[i] == config[0] && family.configs[i] == config) return i;
  }
  return std::nullopt;
}

/// The rules that a family has and its provider's file lacks: those of a kernel library.
std::vector<Rule> rules_of_library(const Family& family) {
  const FamilyFile file = family_rules(family.configs.space());
  std::vector<Rule> rules;
  std::ranges::copy_if(family.applicability, std::back_inserter(rules), [&](const Rule& rule) {
    return std::ranges::find(file.rules, rule.name, &Rule::name) == file.rules.end();
  });
  return rules;
}

ChoiceSource source_of(const Model& model) noexcept {
  return model.data().any_cpu ? ChoiceSource::any_cpu : ChoiceSource::model;
}

/// "gemm fp32 rcr, gemm fp32 rrr"
std::string covered_by(const Model& model) {
  std::string text;
  for (const Family* const family : model.families()) {
    const Signature& of = family->signature;
    text +=
        fmt::format("{}{} {} {}", text.empty() ? "" : ", ", word(of.op), word(of.dtype_a), word(of.layout));
  }
  return text;
}

}  // namespace

std::optional<Target> target_of(By by) noexcept {
  switch (by) {
    case By::tflops:
      return Target::tflops;
    case By::latency:
      return Target::latency;
    case By::bandwidth:
      return Target::bandwidth;
    case By::best:
      break;
  }
  return std::nullopt;
}

FallbackChain::FallbackChain(const FallbackInputs& base, std::optional<LoadedModel> model,
                             std::span<const StoredDecision> decisions, std::shared_ptr<Log> log)
    : model_(std::move(model)),
      class_file_(class_file(base.request.classes)),
      class_origin_(class_origin(base.request)),
      provider_(names_of(base.request, model_).provider),
      without_model_(base.without_model),
      rules_(base.request.rules),
      switches_(Switches::from_environment(names_of(base.request, model_))),
      limit_(thread_limit(base.request.threads, base.request.device)),
      decisions_(switches_.off(ChoiceSource::db) ? std::span<const StoredDecision>() : decisions,
                 names_of(base.request, model_).provider, switches_.disabled, limit_),
      analytic_(base.families, switches_.disabled, limit_, !switches_.off(ChoiceSource::analytic)),
      calls_(base.request.calls),
      suggestions_(base.request.suggestions),
      log_(std::move(log)) {
  if (model_ && model_->model.data().any_cpu && switches_.off(ChoiceSource::any_cpu)) model_.reset();
  if (calls_ < 0)
    fail(Errc::invalid_argument, "calls={}: give the expected number of calls, or 0 to charge no set-up",
         calls_);
  if (calls_ > 0 && (!model_ || std::ranges::all_of(model_->model.data().families, [](const Family& family) {
        return family.setup_us.empty();
      })))
    not_charged_ =
        model_ ? "not_charged: the model has no set-up times, so calls have no effect: train it from "
                 "measurements with a column setup_us"
               : "not_charged: only a model knows set-up times, and there is none: calls have no effect";
  if (model_) {
    for (const Family* const family : model_->model.families()) {
      allowed_.push_back(allowed_configs(*family, switches_.disabled, limit_, &model_->model));
    }
    if (base.request.absence) leave_out_absent(base);
  }
  for (const NamedConfig& named : switches_.forced) compile_forced(base, named);
}

void FallbackChain::leave_out_absent(const FallbackInputs& base) {
  std::size_t all = 0, absent = 0;
  std::string first;
  for (std::size_t f = 0; f < allowed_.size(); ++f) {
    const Family& family = *model_->model.families()[f];
    const bool trained = f < model_->model.data().families.size();  // twins would count again
    if (trained) all += family.configs.size();
    for (std::size_t i = 0; i < family.configs.size(); ++i) {
      const std::string why = base.request.absence(family.signature, family.configs[i]);
      if (why.empty()) continue;
      if (trained && absent++ == 0) first = why;
      allowed_[f].resize(family.configs.size(), 1);
      allowed_[f][i] = 0;
    }
  }
  if (absent == 0) return;
  left_out_ = fmt::format("left_out: {} of the model's {} configs cannot run here: {}", absent, all, first);
}

void FallbackChain::compile_forced(const FallbackInputs& base, const NamedConfig& named) {
  if (const int threads = host_threads(named.config); !limit_.admits(threads)) {
    fail(Errc::invalid_argument, "KSCOUT_FORCE: {}: {}", config_name(named.signature, named.config),
         limit_.refusal(threads));
  }
  auto forced = std::make_unique<Forced>();
  try {
    forced->family = family_of_one(base, model_ ? &model_->model : nullptr, named);
  } catch (const Error& error) {  // no kernels of its kind here: another selector handles it
    if (error.code() != Errc::unsupported) throw;
    return;
  }
  forced->compiled.emplace(forced->family);
  if (log_) log_->line("KSCOUT_FORCE: " + config_name(named.signature, named.config));
  forced_.push_back(std::move(forced));
}

const CompiledFamily* FallbackChain::forced(ProblemRef problem, SelectScratch& scratch) const {
  for (const auto& forced : forced_) {
    if (!same_but_accumulate(forced->family.signature, signature_of(problem))) continue;
    if (forced->compiled->applicable(problem, {}, scratch)[0] != 0) return &*forced->compiled;
  }
  return nullptr;
}

std::optional<FallbackChain::Vote> FallbackChain::rank_by_model(ProblemRef problem, By by, std::size_t count,
                                                                SelectScratch& scratch) const {
  if (!model_ || switches_.off(ChoiceSource::model)) return std::nullopt;
  const Model& model = model_->model;
  const CompiledFamily* const family = model.compiled(signature_of(problem));
  if (!family) return std::nullopt;
  // A model for any CPU has no forest of an absolute speed: its one order answers for all.
  const Target target =
      model.data().any_cpu ? model.default_target() : target_of(by).value_or(model.default_target());
  // The confidence reads the first predictions.
  const std::size_t wanted = std::max(count, Confidence::top);
  Vote vote{.family = family, .listed = listed(problem, scratch), .ranked = {}, .source = source_of(model)};
  scratch.ranked.resize(std::min(wanted, family->size() + vote.listed.size()));
  const auto& allowed = allowed_[model.position(family->family())];
  const std::size_t found =
      model.rank(*family, problem, target, allowed, scratch.ranked, scratch, calls_, vote.listed);
  if (found == 0) return std::nullopt;
  vote.ranked = std::span(scratch.ranked).first(found);
  vote.suggestion_us = static_cast<float>(time_us_of(problem, scratch.suggestion_tflops));
  std::array<double, Confidence::top> tflops{};
  const std::size_t tops = std::min(tflops.size(), found);
  for (std::size_t i = 0; i < tops; ++i) tflops[i] = vote.ranked[i].tflops;
  const auto best = std::span(tflops).first(tops);
  // Both are about the fastest config; one that was preferred for its set-up need not be that.
  if (calls_ > 0 && !std::ranges::is_sorted(best, std::ranges::greater())) return vote;
  vote.confidence = model.confidence(family->family(), problem, target, best);
  const double lead = std::log(best.front() / scratch.suggestion_tflops);
  const bool no_list = model.ranks_listed() && vote.listed.empty() && std::isfinite(lead);
  if (no_list || (!switches_.guard_off && model.guarded(family->family(), problem, target, lead)))
    put_first(vote, *scratch.first_suggestion);
  return vote;
}

std::span<const KernelConfig> FallbackChain::listed(ProblemRef problem, SelectScratch& scratch) const {
  scratch.listed.clear();
  const Model& model = model_->model;
  if (!suggestions_ || !model.ranks_listed()) return {};
  const auto is_disabled = [&](const KernelConfig& config) {
    return std::ranges::any_of(switches_.disabled, [&](const NamedConfig& one) {
      return one.config == config && same_but_accumulate(one.signature, signature_of(problem));
    });
  };
  const Provider& of = kscout::provider(model.provider());
  const auto list = suggestions_(problem, kListedAlgorithms);
  for (const KernelConfig& one : listed_candidates(problem, list, model.device())) {
    const auto own = of.own(one);
    if (!own) break;  // the model's kernels are not of that library
    if (!is_disabled(*of.own(*listed_config(one, 0)))) scratch.listed.push_back(*own);
  }
  return scratch.listed;
}

void FallbackChain::put_first(Vote& vote, std::uint32_t config) {
  if (vote.ranked.front().config == config) return;
  auto at = std::ranges::find(vote.ranked, config, &Ranked::config);
  if (at == vote.ranked.end()) --at;   // takes the place of the last one
  Ranked first = vote.ranked.front();  // counts as equally fast: far away, the model's lead is no fact
  first.config = config;
  first.setup_us = Choice::unknown;
  std::move_backward(vote.ranked.begin(), at, at + 1);
  vote.ranked.front() = first;
  vote.confidence = Choice::unknown;
}

std::optional<FallbackChain::Vote> FallbackChain::rank_by_cost(ProblemRef problem, std::size_t count,
                                                               SelectScratch& scratch) const {
  const Analytic::Entry& entry = analytic_.entry(signature_of(problem));
  if (!entry.compiled) return std::nullopt;
  scratch.ranked.resize(std::min(count, entry.compiled->size()));
  Vote vote{.family = &*entry.compiled, .ranked = {}};
  const std::size_t found = analytic_.rank(entry, problem, scratch.ranked, scratch, vote.source);
  if (found == 0) return std::nullopt;
  vote.ranked = std::span(scratch.ranked).first(found);
  return vote;
}

SelectStatus FallbackChain::try_rank(ProblemRef problem, By by, std::span<Choice> best, std::size_t& count,
                                     SelectScratch& scratch) const {
  const auto target = target_of(by);
  const bool ordered = model_ && !switches_.off(ChoiceSource::model) && !model_->model.data().any_cpu;
  if (target && ordered && !model_->model.has(*target)) {
    return SelectStatus::bad_order;
  }
  const std::size_t preferred = fill_candidates(problem, best, scratch);
  if (preferred > 0 && preferred == best.size()) {
    count = preferred;
    return SelectStatus::ok;
  }
  // Ranks one config more than fits, because the last one's margin needs its successor. Candidates from
  // fill_candidates take places, and the ranking skips them.
  auto vote = rank_by_model(problem, by, best.size() + 1, scratch);
  if (!vote) vote = rank_by_cost(problem, best.size() + 1, scratch);
  if (!vote && preferred == 0) return SelectStatus::no_config;
  const auto ranked = vote ? vote->ranked : std::span<Ranked>();
  std::size_t filled = preferred;
  for (std::size_t i = 0; i < ranked.size() && filled < best.size(); ++i) {
    const std::size_t place = ranked[i].config, own = vote->family->size();
    const KernelConfig config = place < own ? vote->family->config(place) : vote->listed[place - own];
    if (std::ranges::find(best.first(preferred), config, &Choice::config) != best.begin() + preferred)
      continue;
    best[filled] = choice_of(problem, config, ranked[i], vote->source);
    if (i == 0) {
      best[filled].confidence = vote->confidence;
      best[filled].suggestion_us = vote->suggestion_us;
    }
    if (i + 1 < ranked.size()) {
      const auto calls = static_cast<double>(calls_);
      best[filled].margin = ranked[i + 1].cost_us(calls) / ranked[i].cost_us(calls) - 1;
    }
    ++filled;
  }
  count = filled;
  return SelectStatus::ok;
}

std::size_t FallbackChain::fill_candidates(ProblemRef problem, std::span<Choice> best,
                                           SelectScratch& scratch) const {
  if (best.empty()) return 0;
  std::size_t preferred = 0;
  if (const CompiledFamily* const first = forced(problem, scratch)) {
    constexpr double kUnknown = Choice::unknown;
    best[preferred++] =
        choice_of(problem, first->config(0), {0, kUnknown, kUnknown, kUnknown}, ChoiceSource::forced);
  }
  const Choice* const timed = decisions_.find(problem);
  if (timed && preferred < best.size() && (preferred == 0 || timed->config != best[0].config))
    best[preferred++] = *timed;
  return preferred;
}

SelectStatus FallbackChain::rank(ProblemRef problem, By by, std::span<Choice> best, std::size_t& count,
                                 SelectScratch& scratch) const noexcept {
  if (!is_valid(problem)) return SelectStatus::bad_problem;
  try {
    const SelectStatus status = try_rank(problem, by, best, count, scratch);
    if (log_ && status == SelectStatus::ok && count > 0) log_choice(problem, best[0]);
    return status;
  } catch (...) {  // no memory to compile a family
    return SelectStatus::failed;
  }
}

const ClassTable& FallbackChain::classes() const {
  const std::scoped_lock lock(reading_classes_);
  if (!classes_)
    classes_ = std::make_unique<const ClassTable>(read_classes(class_file_), class_origin_, class_file_);
  return *classes_;
}

std::vector<Choice> FallbackChain::class_members(ProblemRef problem, std::string& why) const {
  const Signature signature = signature_of(problem);
  const auto is_named = [&](std::span<const NamedConfig> named, const KernelConfig& config) {
    return std::ranges::any_of(named, [&](const NamedConfig& one) {
      return one.config == config && same_but_accumulate(one.signature, signature);
    });
  };
  std::vector<Choice> members;
  std::string forced;
  for (const NamedConfig& one : switches_.forced) {
    if (same_but_accumulate(one.signature, signature)) forced = config_name(one.signature, one.config);
  }
  for (const auto& [config, time_us] : classes().members(problem, why)) {
    const auto own = provider_.empty() ? std::optional(config) : provider(provider_).own(config);
    if (!own || is_named(switches_.disabled, *own) || !limit_.admits(host_threads(*own))) continue;
    Choice choice = timed_choice(problem, *own, time_us, Choice::unknown);
    if (is_named(switches_.forced, *own)) {
      choice.source = choice.decided_by = ChoiceSource::forced;
      members.insert(members.begin(), choice);
      forced.clear();
    } else {
      members.push_back(choice);
    }
  }
  if (!forced.empty() && why.empty()) {
    why = fmt::format("{}: policy batch-invariant: KSCOUT_FORCE names {}, which is not in the class in {}",
                      print(problem), forced, class_file_.string());
    members.clear();
  }
  if (members.empty() && why.empty())
    why = fmt::format(
        "{}: policy batch-invariant: all configs of the class in {} are excluded by "
        "KSCOUT_DISABLE or by the limit of threads",
        print(problem), class_file_.string());
  return members;
}

const CompiledFamily* FallbackChain::family_of(const Signature& signature) const {
  if (model_) {
    if (const CompiledFamily* const family = model_->model.compiled(signature)) return family;
  }
  const Analytic::Entry& entry = analytic_.entry(signature);
  return entry.compiled ? &*entry.compiled : nullptr;
}

Verdict FallbackChain::verdict(ProblemRef problem, const KernelConfig& config, const Device& device,
                               SelectScratch& scratch) const {
  Verdict verdict = rule_verdict(problem, config, device);
  if (verdict.status != VerdictStatus::allowed) return verdict;
  const CompiledFamily* const own = family_of(signature_of(problem));
  const auto position = own ? position_in(own->family(), config) : std::nullopt;
  if (!position || own->applicable_among(problem, std::span(&*position, 1), scratch) == 1) return verdict;
  // Rare, so that these rules are compiled for this call.
  if (const auto rule = refusing_rule(rules_of_library(own->family()), problem, config, device))
    return {VerdictStatus::refused, rule->name, rule->because, rule->since};
  return verdict;
}

void FallbackChain::log_choice(ProblemRef problem, const Choice& choice) const noexcept {
  try {
    log_->line(fmt::format("{} -> {} ({}, {:.4g} us)", print(problem),
                           config_name(signature_of(problem), choice.config), word(choice.decided_by),
                           choice.time_us));
  } catch (...) {  // a line that cannot be formatted is lost
  }
}

void FallbackChain::explain(SelectStatus status, ProblemRef problem, By by) const {
  check(problem);
  if (status == SelectStatus::bad_order) {
    std::string names;
    for (const auto& has : model_->model.data().targets) {
      names += (names.empty() ? "" : ", ") + std::string(word(has.target));
    }
    fail(Errc::invalid_argument, "the model was not trained for {}; it has {}", word(by), names);
  }
  if (status == SelectStatus::failed) throw std::bad_alloc();
  const Analytic::Entry& entry = analytic_.entry(signature_of(problem));
  if (entry.error && model_ && !model_->model.family(signature_of(problem))) {
    const std::string covered =
        fmt::format("{}: the model covers {} only", print(problem), covered_by(model_->model));
    // A model of imported measurements has no rule set: its candidates are the measured kernels.
    const bool own_rules = model_->model.data().families.front().rules == rules_;
    if (own_rules && entry.error->code() == Errc::invalid_argument) {
      fail(Errc::unsupported,
           "{}, and no rule set describes its kernels; take another model, or give the selector a rule set",
           covered);
    }
    fail(entry.error->code(), "{}; without it: {}", covered, entry.error->what());
  }
  if (entry.error) throw Error(*entry.error);
  fail(Errc::unsupported, "{}: none of the {} configs of {} can take it{}{}", print(problem),
       entry.compiled->size(), entry.family.provider,
       switches_.disabled.empty() ? "" : " (KSCOUT_DISABLE excludes some)",
       limit_.because.empty() ? ""
                              : fmt::format(" (configs of more than {} threads are left out: {})",
                                            limit_.threads, limit_.because));
}

}  // namespace kscout
