#include "preload/gpu.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <limits>
#include <new>
#include <span>
#include <string_view>
#include <utility>

#include <kscout/dispatcher.h>
#include <kscout/error.h>
#include <kscout/family.h>
#include <kscout/provider.h>
#include <kscout/selector.h>
#include <kscout/version.h>

#include "backend/cuda/cuda_backend.h"
#include "core/problem_text.h"
#include "dispatch/padding.h"
#include "dispatch/solver.h"
#include "dispatch/timed_choice.h"
#include "family/listed.h"
#include "preload/apart.h"
#include "preload/say.h"
#include "provider/cublaslt/cublaslt.h"
#include "provider/joint.h"
#include "select/class_table.h"

namespace kscout::preload {

namespace {

constexpr Limits kLimits = {.deterministic = true};
/// A GPU takes no longer for these than a call costs the CPU.
constexpr double kSmallFlop = 2e6;

/// Whether the kernel reads and writes single elements, at any address.
bool takes_any_address(const Solution& solution) {
  const KernelConfig& config = solution.choice.config;
  const Traits traits = provider(config.space->provider)
                            .traits(signature_of(solution.form.problem), config, solution.backend->device());
  return traits.vector_elements == 1;
}

/// The release of cuBLASLt to which a config is bound; 0: none. Only the first suggestion means the same in
/// each release.
bool needs_release(const KernelConfig& config, std::int32_t* release = nullptr) {
  const KernelConfig member = member_config(config);
  if (member.space != &cublaslt_gemm_space) return false;
  const CublasLtConfig c = CublasLtConfig::from(member);
  if (release) *release = c.version;
  return c.suggestion != 1;
}

}  // namespace

/// Chooses for one element type.
struct GpuServer::Chooser {
  Selector selector;
  Solver solver;
  bool other_release;  ///< the model's release of cuBLASLt is not the program's

  /// Microseconds that the model expects of the library's first suggestion, or the least that it can take.
  double own_us(ProblemRef problem, Backend& gpu) const {
    const double least_us = gpu.min_us(problem, CublasLtConfig{.suggestion = 1}.kernel_config());
    return std::fmax(static_cast<double>(selector.select(problem).suggestion_us), least_us);
  }
};

GpuServer::GpuServer(GpuSession& session, Guard* guard) : session_(session), guard_(guard) {}

GpuServer::~GpuServer() = default;

const char* GpuServer::restriction() const noexcept {
  return restricted_.load(std::memory_order_acquire) ? restriction_.data() : "";
}

void GpuServer::restrict(const std::string& why) noexcept {
  if (restricted_) return;
  why.copy(restriction_.data(), restriction_.size() - 1);
  restricted_.store(true, std::memory_order_release);
}

GpuServer::Known GpuServer::recall(const ProductKey& product) noexcept {
  if (session_.is_off()) return {Outcome::off};
  if (flop_count(product.problem) < kSmallFlop && !settings_.batch_invariant) return {Outcome::small};
  Decision* const decision = decisions_.find(product);
  return {decision ? decision->outcome.load(kRelaxed) : Outcome::served, decision};
}

Outcome GpuServer::serve(const ProductCall& product, const Known& known) noexcept {
  Outcome outcome = Outcome::failed;
  try {
    outcome = try_serve(product, known.decision);
  } catch (const PartialResult& error) {
    kscout_say("a kernel failed after it had added to C, which nothing can undo: %s", error.what());
    std::abort();
  } catch (const std::bad_alloc&) {
    outcome = Outcome::memory;
  } catch (...) {  // the library computes it
  }
  if (outcome == Outcome::capture) session_.exchange_capture_mode();
  return tally_.count(outcome);
}

Outcome GpuServer::try_serve(const ProductCall& product, Decision* one) {
  const Operands& operands = product.operands;
  if (operands.alpha == 0) return Outcome::nothing;  // kernels of libraries keep a NaN of A
  if (!session_.is_on_its_gpu()) return Outcome::gpu;
  if (!one) {
    if (session_.driver().captures(operands.stream)) return Outcome::capture;
    if (!(one = decide(product))) return session_.is_off() ? Outcome::off : Outcome::failed;
    if (const Outcome outcome = one->outcome; outcome != Outcome::served) return outcome;
  } else if (one->failed.load(kRelaxed)) {
    return Outcome::failed;
  }
  if ((one->aligned_a && !is_aligned(operands.a, kLineAlignment)) ||
      (one->aligned_b && !is_aligned(operands.b, kLineAlignment)) ||
      (one->aligned_c && !is_aligned(operands.c, kLineAlignment)) ||
      !is_aligned(operands.bias, kLineAlignment))
    return Outcome::address;
  if (one->is_undecided()) {
    if (const auto result = session_.settled(*one, tally_)) keep([&] { store(*one, *result); });
    if (const Outcome outcome = one->outcome; outcome != Outcome::served) return outcome;
  }
  const Outcome outcome = session_.run(*one, operands, tally_);
  if (outcome == Outcome::served && one->replaces_wrong) tally_.wrong_suggestions.fetch_add(1, kRelaxed);
  return outcome;
}

void GpuServer::store(const Decision& one, const ContestResult& result) const {
  const Decision::Pick& pick = one.pick;
  const KernelConfig library = library_config(), ours = member_config(pick.config);
  Fastest fastest{.time_us = result.pick_us, .next_us = result.library_us, .timed = 2};
  if (result.is_library_faster()) {
    std::swap(fastest.time_us, fastest.next_us);
  } else if (pick.copies_us > 0) {
    // The kernel's time on the copies. Nothing else was timed on them.
    fastest.time_us = std::max(fastest.time_us - pick.copies_us, 0.1 * fastest.time_us);
    fastest.next_us = Choice::unknown;
    fastest.timed = 1;
  }
  StoredDecision decision = result.is_library_faster()
                                ? decision_of(one.key.problem, library, fastest, session_.gpu())
                                : decision_of(pick.form, ours, fastest, session_.gpu());
  decision.limits = print(kLimits);
  std::vector<StoredTiming> timings;
  if (!(pick.copies_us > 0)) {
    const ProblemRef problem = one.key.problem;
    const Signature signature = signature_of(problem);
    timings = {timing_of(problem, config_name(signature, library), result.library_us, session_.gpu()),
               timing_of(problem, config_name(signature, ours), result.pick_us, session_.gpu())};
  }
  DecisionDb(settings_.db).put(std::span(&decision, 1), timings);
}

std::optional<Solution> GpuServer::timed_form(ProblemRef problem) const {
  for (const auto& [form, chosen_for] : aligned_forms(problem)) {
    const Choice* const timed = session_.timings().find(form.problem, kLimits);
    // Decisions about the form's problem itself know the time of a second config.
    if (timed && std::isnan(timed->margin) &&
        rule_verdict(form.problem, timed->config, session_.gpu().device()).status != VerdictStatus::refused)
      return Solution{.choice = *timed,
                      .backend = &session_.gpu(),
                      .form = form,
                      .copies_us = predicted_copies_us(form, session_.gpu().device())};
  }
  return std::nullopt;
}

KernelConfig GpuServer::library_config() const {
  return CublasLtConfig{.version = release(), .suggestion = 1}.kernel_config();
}

bool GpuServer::is_library(const KernelConfig& config) const {
  if (!is_first_suggestion(config)) return false;
  const std::int32_t of = CublasLtConfig::from(member_config(config)).version;
  return of == 0 || of == release();
}

GpuServer::Decision* GpuServer::decide(const ProductCall& product) {
  const std::scoped_lock lock(deciding_);
  if (Decision* const found = decisions_.find(product)) return found;
  const CaptureAside aside(session_.driver());
  if (!std::exchange(knows_release_, true)) {
    run_apart([&] {
      if (session_.open()) compare_releases();
    });
  }
  if (session_.is_off()) return nullptr;
  return decisions_.add(product, tally_, [&](Decision& made) {
    settings_.batch_invariant ? choose_in_class(product.problem, made) : choose(product.problem, made);
    if (guard_ && made.outcome == Outcome::served &&
        guard_->is_wrong(product, *made.picks.front(), session_.gpu().space()))
      made.outcome = Outcome::wrong;
  });
}

void GpuServer::compare_releases() {
  const auto get_version =
      reinterpret_cast<std::size_t (*)()>(session_.finder()("libcublasLt", "cublasLtGetVersion"));
  release_ = get_version ? static_cast<std::int32_t>(get_version()) : 0;
  const std::string theirs = release() != 0 ? std::to_string(release()) : "of an unknown release";
  const std::string ours = session_.gpu().versions()["cublaslt_version"];
  if (ours == "0") return session_.turn_off("backend cuda finds no cuBLASLt; KSCOUT_CUBLASLT names a file");
  same_library_ = ours == theirs;
  if (!same_library_)
    restrict("the program has loaded cuBLASLt " + theirs + ", backend cuda uses " + ours +
             "; build it for the same major version, or set KSCOUT_CUBLASLT to the program's library");
}

const std::vector<KernelConfig>& GpuServer::listed(ProblemRef problem) {
  Problem asked = problem.value();
  if (listed_for_ != asked) {
    listed_for_.reset();
    listed_ = session_.gpu().suggestions(problem, kListedAlgorithms);
    listed_for_ = std::move(asked);
  }
  return listed_;
}

GpuServer::Chooser* GpuServer::chooser(DType dtype) {
  const auto [found, is_new] = choosers_.try_emplace(dtype);
  if (!is_new) return found->second.get();
  // Timing decides under --refine: there, a model of any GPU names what is timed.
  const DevicePolicy devices = settings_.refine ? DevicePolicy::any : DevicePolicy::same_arch;
  const auto model = find_model(Op::gemm, dtype, session_.gpu().device(), devices);
  if (!model) return nullptr;
  const auto of_model = std::make_shared<std::int32_t>(0);  // another release than the program's
  SelectorRequest request{
      .provider = std::string(session_.gpu().provider_for(Op::gemm)),
      .device = session_.gpu().device(),
      .devices = devices,
      .db = settings_.db,
      .backend = std::string(session_.gpu().name()),
      .absence =
          [&gpu = session_.gpu(), release = release(), of_model](const Signature& of,
                                                                 const KernelConfig& config) {
            std::int32_t needed = 0;
            if (needs_release(config, &needed) && needed != 0 && needed != release) *of_model = needed;
            return gpu.absence(of, config);
          },
      .suggestions = [this](ProblemRef problem, std::size_t /*count*/) { return listed(problem); }};
  Selector selector = Selector::load(*model, request);
  const bool other_release = *of_model != 0 || !same_library_;
  if (other_release) {
    request.absence = [&gpu = session_.gpu()](const Signature& of, const KernelConfig& config) {
      if (needs_release(config)) return std::string("it needs another release of cuBLASLt");
      return gpu.absence(of, config);
    };
    request.suggestions = nullptr;  // they would be of that release
    selector = Selector::load(*model, request);
  }
  if (*of_model != 0)
    restrict("the program has loaded cuBLASLt " + std::to_string(release()) + ", model " +
             model->filename().string() + " knows " + std::to_string(*of_model));
  Registry registry;
  registry.add(session_.gpu());
  Solver solver(selector, std::move(registry), {.limits = kLimits});
  found->second.reset(new Chooser{std::move(selector), std::move(solver), other_release});
  return found->second.get();
}

void GpuServer::set_alignment(const Solution& solution, Decision& decision) {
  const bool any_address = takes_any_address(solution);
  decision.workspace_bytes = decision.picks.front()->workspace_bytes();
  decision.aligned_a = !any_address && !solution.form.copied[kA];
  decision.aligned_b = !any_address && !solution.form.copied[kB];
  decision.aligned_c = !any_address && !solution.form.copied[kC];
}

void GpuServer::choose_in_class(ProblemRef problem, Decision& decision) {
  const Limits limits = {.deterministic = true, .batch_invariant = true};
  if (!classes_) {
    Registry registry;
    registry.add(session_.gpu());
    const Selector selector =
        Selector::analytic({.provider = std::string(session_.gpu().provider_for(Op::gemm)),
                            .device = session_.gpu().device(),
                            .backend = std::string(session_.gpu().name()),
                            .library = library_release(session_.gpu())});
    classes_ = std::make_unique<Solver>(selector, std::move(registry), DispatchPolicy{.limits = limits});
  }
  Solution solution = classes_->solve(problem, session_.gpu().space(), limits);
  if (!same_library_ && needs_release(solution.choice.config)) {
    decision.outcome = Outcome::release;
    return;
  }
  decision.picks.push_back(classes_->make_ready(problem, solution, limits));
  set_alignment(solution, decision);
}

void GpuServer::choose(ProblemRef problem, Decision& decision) {
  Chooser* const by = chooser(signature_of(problem).dtype_a);
  if (!by) {
    decision.outcome = Outcome::model;
    return;
  }
  // The library also suggests algorithms that are known to give wrong results.
  const std::vector<KernelConfig> suggested = listed(problem);
  if (!suggested.empty() && same_library_) {
    const Verdict verdict = rule_verdict(problem, suggested.front(), session_.gpu().device());
    decision.replaces_wrong = verdict.status == VerdictStatus::refused && !verdict.since.empty();
  }
  if (const Choice* const timed = session_.timings().find(problem, kLimits);
      timed && is_library(timed->config) && !decision.replaces_wrong) {
    decision.outcome = Outcome::slower;
    return;
  }
  const std::optional<Solution> known = timed_form(problem);
  Solution solution = known ? *known : by->solver.solve(problem, session_.gpu().space(), kLimits);
  if (by->other_release &&
      needs_release(solution.choice.config)) {  // KSCOUT_FORCE, or timed under another one
    decision.outcome = Outcome::release;
    return;
  }
  decision.picks.push_back(by->solver.make_ready(problem, solution, kLimits));
  const ChoiceSource source = solution.choice.decided_by;
  const bool forced = source == ChoiceSource::forced;
  const bool any_address = takes_any_address(solution);
  if (!forced && source != ChoiceSource::model && source != ChoiceSource::db && !any_address) {
    decision.outcome = Outcome::model;
    return;
  }
  const ExecutionForm& form = solution.form;
  const bool own =
      !form.padded() &&
      (is_first_suggestion(solution.choice.config) ||
       (!suggested.empty() && same_library_ && member_config(solution.choice.config) == suggested.front()));
  const double ours_us =
      std::max(solution.choice.time_us, session_.gpu().min_us(form.problem, solution.choice.config)) +
      solution.copies_us;
  const Choice* const timed = session_.timings().find(form.problem, kLimits);
  const bool is_timed = timed && member_config(timed->config) == member_config(solution.choice.config);
  const bool knows_both = is_timed && !form.padded() && !std::isnan(timed->margin);
  const double saved_us =
      knows_both ? timed->margin * timed->time_us : by->own_us(problem, session_.gpu()) - ours_us;
  decision.saved_us = std::isnan(saved_us) ? 0 : std::max(saved_us, 0.0);
  const bool gains = saved_us >= settings_.min_gain * ours_us && saved_us >= settings_.min_saved_us;
  if (own || !(is_timed || gains || forced || decision.replaces_wrong)) {
    decision.outcome = Outcome::gain;
    return;
  }
  if (settings_.refine && !is_timed && !forced && !decision.replaces_wrong) {
    decision.contest = std::make_unique<Contest<EventTimer>>(ContestRules{});
    decision.pick = {form.problem, solution.choice.config, solution.copies_us};
  }
  set_alignment(solution, decision);
  if (decision.replaces_wrong && !std::exchange(reported_wrong_, true)) {
    kscout_say(
        "%s: cuBLASLt suggests an algorithm that is known to give wrong results; another one computes it "
        "(--report counts such calls)",
        print(problem).c_str());
  }
}

}  // namespace kscout::preload
