#include "preload/serve.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <limits>
#include <new>
#include <string_view>
#include <utility>

#include <kscout/dispatcher.h>
#include <kscout/error.h>
#include <kscout/family.h>
#include <kscout/selector.h>
#include <kscout/version.h>

#include "backend/cuda/cuda_backend.h"
#include "core/owners.h"
#include "core/problem_text.h"
#include "dispatch/padding.h"
#include "dispatch/solver.h"
#include "dispatch/timed_choice.h"
#include "preload/apart.h"
#include "preload/say.h"
#include "provider/cublaslt/cublaslt.h"
#include "provider/hopper/hopper.h"
#include "provider/joint.h"
#include "select/class_table.h"

namespace kscout::preload {

namespace {

constexpr Limits kLimits = {.deterministic = true};
constexpr std::uintptr_t kLineAlignment = 16, kWorkspaceAlignment = 256;
/// Larger workspaces are reserved for captures only by calls on a stream other than the default one, on which
/// programs warm up before they capture.
constexpr std::size_t kSmallReserve = std::size_t{64} << 20;
/// Of policy batch-invariant more: a product without a decision would get the library's bits.
constexpr std::size_t kMaxDecisions = 16384, kMaxDecisionsInClasses = 1 << 19;
/// A GPU takes no longer for these than a call costs the CPU.
constexpr double kSmallFlop = 2e6;

bool is_aligned(const void* address, std::uintptr_t alignment) noexcept {
  return reinterpret_cast<std::uintptr_t>(address) % alignment == 0;
}

double number_setting(const char* name, double otherwise, std::string& wrong) {
  const char* const value = std::getenv(name);
  if (!value || !*value) return otherwise;
  double number = 0;
  const char* const end = value + std::strlen(value);
  const auto [stop, error] = std::from_chars(value, end, number);
  if (error == std::errc() && stop == end && number >= 0 && std::isfinite(number)) return number;
  wrong = std::string(name) + "=" + value + " is no number of at least 0";
  return otherwise;
}

bool switch_setting(const char* name, std::string& wrong) {
  const char* const value = std::getenv(name);
  if (!value || !*value || std::string_view(value) == "0") return false;
  if (std::string_view(value) != "1") wrong = std::string(name) + "=" + value + " is neither 0 nor 1";
  return true;
}

/// Whether KSCOUT_PRELOAD_POLICY names batch-invariant.
bool policy_setting(std::string& wrong) {
  const char* const value = std::getenv("KSCOUT_PRELOAD_POLICY");
  if (!value || !*value || std::string_view(value) == "best") return false;
  if (std::string_view(value) != "batch-invariant")
    wrong = std::string("KSCOUT_PRELOAD_POLICY=") + value + " is neither best nor batch-invariant";
  return true;
}

/// KSCOUT_DB, or the default file; empty without a home.
std::filesystem::path decision_file(std::string& wrong) {
  const char* const named = std::getenv("KSCOUT_DB");
  const std::filesystem::path file = named && *named ? named : default_decision_db();
  if (std::string why = why_others_write(file); !why.empty()) wrong = std::move(why);
  std::error_code error;
  auto absolute = std::filesystem::absolute(file, error);  // programs change their folder
  return error ? file : absolute;
}

/// Whether KSCOUT_DISABLE names the timings, or KSCOUT_FORCE a config, which comes before them.
bool are_timings_disabled() {
  if (const char* const forced = std::getenv("KSCOUT_FORCE"); forced && *forced) return true;
  const char* const disabled = std::getenv("KSCOUT_DISABLE");
  if (!disabled) return false;
  const auto names = split(disabled, ',');
  return std::ranges::find(names, word(ChoiceSource::db)) != names.end();
}

/// Whether a config stands for the first suggestion of the library.
bool is_first_suggestion(const KernelConfig& config) {
  const KernelConfig member = member_config(config);
  return member.space == &cublaslt_gemm_space && CublasLtConfig::from(member).suggestion == 1;
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

ServeSettings ServeSettings::from_environment(std::string& wrong) {
  ServeSettings settings;
  settings.min_gain = number_setting("KSCOUT_PRELOAD_MIN_GAIN", 100 * settings.min_gain, wrong) / 100;
  settings.min_saved_us = number_setting("KSCOUT_PRELOAD_MIN_SAVED_US", settings.min_saved_us, wrong);
  settings.refine = switch_setting("KSCOUT_PRELOAD_REFINE", wrong);
  if (const char* const config = std::getenv("CUBLAS_WORKSPACE_CONFIG");
      settings.refine && config && *config) {
    settings.refine = false;
    kscout_say("CUBLAS_WORKSPACE_CONFIG asks for equal results in every run: --refine times nothing");
  }
  settings.batch_invariant = policy_setting(wrong);
  settings.db = decision_file(wrong);
  return settings;
}

/// What is done about a problem. Complete before other threads see it; a contest changes the reason later.
struct Server::Decision {
  std::atomic<Passed> why = Passed::none;
  std::unique_ptr<Launch> launch;
  std::unique_ptr<Contest> contest;  ///< null: the pick is not timed
  std::size_t workspace_bytes = 0;
  std::atomic<double> saved_us = 0;
  bool replaces_wrong = false;
  bool aligned_a = false, aligned_b = false, aligned_c = false;  ///< addresses have to be aligned
  std::mutex running;                                            ///< one launch runs in one thread at a time
  std::atomic<bool> failed = false;
};

/// Chooses for one element type.
struct Server::Chooser {
  Selector selector;
  Solver solver;
  bool other_release;  ///< the model's release of cuBLASLt is not the program's

  /// Microseconds that the model expects of the library's first suggestion; 0: unknown.
  double own_us(const GemmProblem& problem, Backend& gpu) const {
    for (const Choice& one : selector.rank(problem, std::numeric_limits<std::size_t>::max())) {
      if (!is_first_suggestion(one.config) || std::isnan(one.time_us)) continue;
      return std::max(one.time_us, gpu.min_us(problem, one.config));
    }
    return gpu.min_us(problem, CublasLtConfig{.suggestion = 1}.kernel_config());
  }
};

namespace {

/// The original that this thread is about to call for a contest.
struct TimedCall {
  Contest* contest = nullptr;
  Contest::Turn turn;
  EventTimer::Span span;
  void* stream = nullptr;
};
thread_local TimedCall timed_call;

}  // namespace

Server::Server(kscout_find find, const ServeSettings& settings, std::string off)
    : settings_(settings), find_(find) {
  if (off.empty()) off = cuda_missing();
  driver_ = Driver::found_by(find);
  if (off.empty() && !driver_.is_complete()) off = "the GPU's driver lacks functions; CUDA 12 has them";
  if (off.empty() && settings.refine && !driver_.has_events())
    off = "the GPU's driver has no events to time with";
  if (!off.empty()) turn_off(off);
}

Server::~Server() = default;

void Server::turn_off(const std::string& why) noexcept {
  std::call_once(turned_off_, [&] {
    why.copy(off_reason_.data(), off_reason_.size() - 1);
    off_.store(true, std::memory_order_release);
  });
}

bool Server::give_back() noexcept {
  StreamWorkspaces* const workspaces = opened_workspaces_.load(std::memory_order_acquire);
  void* context = nullptr;
  if (off_ || !workspaces || driver_.current(&context) != 0 || context != context_) return false;
  // A thread that allocates while it captures a graph has to be in this mode, and may release nothing.
  if (CaptureAside(driver_).before() == CaptureAside::kRelaxed) return false;
  return workspaces->give_back();
}

void Server::in_child() noexcept {
  // Threads of the parent may have held any lock.
  if (!off_) std::strcpy(off_reason_.data(), "a forked process has no GPU");
  off_ = true;
  served_ = saved_ns_ = wrong_suggestions_ = 0;
  contests_ = refined_ = library_kept_ = 0;
  for (auto& count : passed_) count = 0;
}

const char* Server::off_reason() const noexcept {
  return off_.load(std::memory_order_acquire) ? off_reason_.data() : "";
}

const char* Server::restriction() const noexcept {
  return restricted_.load(std::memory_order_acquire) ? restriction_.data() : "";
}

void Server::restrict(const std::string& why) noexcept {
  if (restricted_) return;
  why.copy(restriction_.data(), restriction_.size() - 1);
  restricted_.store(true, std::memory_order_release);
}

std::uint64_t Server::given_back() const noexcept {
  const StreamWorkspaces* const workspaces = opened_workspaces_.load(std::memory_order_acquire);
  return workspaces ? workspaces->given_back() : 0;
}

ServeCounts Server::counts() const noexcept {
  ServeCounts counts{.served = served_,
                     .wrong_suggestions = wrong_suggestions_,
                     .saved_us = static_cast<double>(saved_ns_.load()) / 1e3,
                     .given_back = given_back(),
                     .contests = contests_,
                     .refined = refined_,
                     .library_kept = library_kept_};
  std::ranges::transform(passed_, counts.passed.begin(), [](const auto& count) { return count.load(); });
  return counts;
}

void Server::exchange_capture_mode() noexcept {
  static thread_local int mode = CaptureAside::kRelaxed;
  driver_.exchange_capture_mode(&mode);
}

Server::Known Server::recall(const GemmProblem& problem) noexcept {
  if (off_.load(std::memory_order_acquire)) return {Passed::off};
  if (flop_count(problem) < kSmallFlop && !settings_.batch_invariant) return {Passed::small};
  Decision* const decision = look_up(problem);
  return {decision ? decision->why.load(kRelaxed) : Passed::none, decision};
}

Passed Server::serve(const GemmProblem& problem, const Known& known, const Operands& operands) noexcept {
  Passed why = Passed::failed;
  try {
    why = try_serve(problem, known.decision, operands);
  } catch (const PartialResult& error) {
    kscout_say("a kernel failed after it had added to C, which nothing can undo: %s", error.what());
    std::abort();
  } catch (const std::bad_alloc&) {
    why = Passed::memory;
  } catch (...) {  // the library computes it
  }
  pass(why);
  if (why == Passed::capture) exchange_capture_mode();
  return why;
}

void Server::after_original(int status) noexcept {
  const TimedCall call = std::exchange(timed_call, {});
  if (!call.contest) return exchange_capture_mode();
  if (!call.turn.timed) return;
  const bool is_recorded = timer_.stop(call.span, call.stream) && status == 0;
  call.contest->add(call.turn, call.span, is_recorded, timer_);
}

Passed Server::try_serve(const GemmProblem& problem, Decision* one, const Operands& operands) {
  if (operands.alpha == 0) return Passed::nothing;  // kernels of libraries keep a NaN of A
  void* context = nullptr;
  if (driver_.current(&context) != 0 || !context) return Passed::gpu;
  void* first = nullptr;
  if (!context_.compare_exchange_strong(first, context) && first != context) return Passed::gpu;
  if (!one) {
    if (driver_.captures(operands.stream)) return Passed::capture;
    if (!(one = decide(problem))) return off_ ? Passed::off : Passed::failed;
    if (const Passed why = one->why; why != Passed::none) return why;
  } else if (one->failed.load(kRelaxed)) {
    return Passed::failed;
  }
  if ((one->aligned_a && !is_aligned(operands.a, kLineAlignment)) ||
      (one->aligned_b && !is_aligned(operands.b, kLineAlignment)) ||
      (one->aligned_c && !is_aligned(operands.c, kLineAlignment)) ||
      !is_aligned(operands.bias, kLineAlignment))
    return Passed::address;
  const bool undecided = one->contest && !one->contest->is_over();
  if (undecided) {
    settle(*one);
    if (const Passed why = one->why; why != Passed::none) return why;
  }
  void* workspace = nullptr;
  StreamWorkspaces::Hold hold;
  if (one->workspace_bytes > 0) {
    if (operands.workspace && operands.workspace_bytes >= one->workspace_bytes &&
        is_aligned(operands.workspace, kWorkspaceAlignment)) {
      workspace = operands.workspace;
    } else {
      workspaces_->tidy(operands.stream);
      const bool capturing = driver_.captures(operands.stream);
      const CaptureAside aside(driver_);
      hold = workspaces_->hold();
      workspace = workspaces_->take(operands.stream, one->workspace_bytes, capturing);
      if (!workspace) return capturing ? Passed::capture : Passed::memory;
      if (!capturing && (one->workspace_bytes <= kSmallReserve || operands.stream))
        workspaces_->reserve(one->workspace_bytes);
    }
  }
  Contest::Turn turn;
  if (undecided && !driver_.captures(operands.stream)) turn = one->contest->next();
  const EventTimer::Span span = turn.timed ? timer_.start(operands.stream) : EventTimer::Span();
  if (turn.library) {
    timed_call = {one->contest.get(), turn, span, operands.stream};
    return Passed::timed;
  }
  try {
    const std::scoped_lock lock(one->running);
    one->launch->run(GemmBuffers{.a = operands.a,
                                 .b = operands.b,
                                 .c = operands.c,
                                 .alpha = operands.alpha,
                                 .beta = operands.beta,
                                 .bias = operands.bias,
                                 .space = gpu_->space()},
                     workspace, {operands.stream});
  } catch (...) {
    one->failed = true;
    if (turn.timed) one->contest->add(turn, span, false, timer_);
    throw;
  }
  if (turn.timed) one->contest->add(turn, span, timer_.stop(span, operands.stream), timer_);
  served_.fetch_add(1, kRelaxed);
  saved_ns_.fetch_add(static_cast<std::uint64_t>(1e3 * one->saved_us), kRelaxed);
  if (one->replaces_wrong) wrong_suggestions_.fetch_add(1, kRelaxed);
  return Passed::none;
}

void Server::settle(Decision& one) noexcept {
  std::optional<Contest::Result> result;
  {
    const CaptureAside aside(driver_);
    result = one.contest->result(timer_);
  }
  if (!result) return;
  refined_.fetch_add(1, kRelaxed);
  if (result->is_library_faster()) {
    library_kept_.fetch_add(1, kRelaxed);
    one.why = Passed::slower;
  } else {
    one.saved_us = result->library_us - result->pick_us;
  }
  try {
    run_apart(
        [&] { store(one.contest->pick(), *result, library_config(), print(kLimits), *gpu_, settings_.db); });
  } catch (const std::exception& error) {  // other processes have to time the problem again
    if (!reported_lost_.exchange(true)) kscout_say("what --refine timed is not stored: %s", error.what());
  }
}

std::optional<Solution> Server::timed_form(const GemmProblem& problem) const {
  for (const auto& [form, chosen_for] : aligned_forms(problem)) {
    const Choice* const timed = timings_.find(form.problem, kLimits);
    // Decisions about the form's problem itself know the time of a second config.
    if (timed && std::isnan(timed->margin) &&
        rule_verdict(form.problem, timed->config, gpu_->device()).status != VerdictStatus::refused)
      return Solution{.choice = *timed,
                      .backend = gpu_,
                      .form = form,
                      .copies_us = predicted_copies_us(form, gpu_->device())};
  }
  return std::nullopt;
}

KernelConfig Server::library_config() const {
  return CublasLtConfig{.version = release_, .suggestion = 1}.kernel_config();
}

bool Server::is_library(const KernelConfig& config) const {
  if (!is_first_suggestion(config)) return false;
  const std::int32_t of = CublasLtConfig::from(member_config(config)).version;
  return of == 0 || of == release_;
}

Server::Decision* Server::look_up(const GemmProblem& problem) {
  const std::shared_lock lock(looking_);
  const auto found = decisions_.find(problem);
  return found == decisions_.end() ? nullptr : found->second.get();
}

Server::Decision* Server::decide(const GemmProblem& problem) {
  const std::scoped_lock lock(deciding_);
  if (Decision* const found = look_up(problem)) return found;
  if (decisions_.size() >= (settings_.batch_invariant ? kMaxDecisionsInClasses : kMaxDecisions))
    return nullptr;
  const CaptureAside aside(driver_);
  if (!open_) run_apart([&] { open(); });
  if (off_) return nullptr;
  auto decision = std::make_unique<Decision>();
  try {
    run_apart([&] {
      settings_.batch_invariant ? choose_in_class(problem, *decision) : choose(problem, *decision);
    });
  } catch (const Error& error) {
    decision->why = error.code() == Errc::unsupported ? Passed::kernel : Passed::failed;
    if (settings_.batch_invariant) {
      decision->why = Passed::classes;
      report_without_class(error.what());
    }
  } catch (const std::bad_alloc&) {  // the next call tries again
    throw;
  } catch (const std::exception&) {
    decision->why = Passed::failed;
  }
  const bool has_contest = decision->contest != nullptr;
  const std::scoped_lock changing(looking_);
  Decision* const kept = decisions_.emplace(problem, std::move(decision)).first->second.get();
  if (has_contest) contests_.fetch_add(1, kRelaxed);
  return kept;
}

void Server::open() {
  open_ = true;
  int device = 0;
  void* primary = nullptr;
  if (driver_.device(&device) != 0 || driver_.retain(&primary, device) != 0 || primary != context_) {
    turn_off("the program's context is not the primary one of its GPU");
    return;
  }
  try {
    use_cuda_device(device);
    gpu_ = &backend("cuda");
    gpu_->device();  // throws where the module does not work
    compare_releases();
    workspaces_ = std::make_unique<StreamWorkspaces>(driver_, gpu_->memory());
    opened_workspaces_.store(workspaces_.get(), std::memory_order_release);
    if (!are_timings_disabled())
      timings_ = DecisionTable(DecisionDb(settings_.db)
                                   .read(DecisionOrigin{device_identity(gpu_->device()), "", KSCOUT_VERSION,
                                                        std::string(gpu_->name())}),
                               "", {});
  } catch (const std::exception& error) {
    turn_off(error.what());
  }
}

void Server::compare_releases() {
  const auto get_version = reinterpret_cast<std::size_t (*)()>(find_("libcublasLt", "cublasLtGetVersion"));
  release_ = get_version ? static_cast<std::int32_t>(get_version()) : 0;
  const std::string theirs = release_ ? std::to_string(release_) : "of an unknown release";
  const std::string ours = gpu_->versions()["cublaslt_version"];
  if (ours == "0") return turn_off("backend cuda finds no cuBLASLt; KSCOUT_CUBLASLT names a file");
  same_library_ = ours == theirs;
  if (!same_library_)
    restrict("the program has loaded cuBLASLt " + theirs + ", backend cuda uses " + ours +
             "; build it for the same major version, or set KSCOUT_CUBLASLT to the program's library");
}

Server::Chooser* Server::chooser(const GemmProblem& problem) {
  const auto [found, is_new] = choosers_.try_emplace(problem.dtype_a);
  if (!is_new) return found->second.get();
  const auto model = find_model(Op::gemm, problem.dtype_a, gpu_->device(), DevicePolicy::same_arch);
  if (!model) return nullptr;
  const auto of_model = std::make_shared<std::int32_t>(0);  // another release than the program's
  SelectorRequest request{
      .provider = std::string(gpu_->provider_for(Op::gemm)),
      .device = gpu_->device(),
      .db = settings_.db,
      .backend = std::string(gpu_->name()),
      .absence = [gpu = gpu_, release = release_, of_model](const Signature& of, const KernelConfig& config) {
        std::int32_t needed = 0;
        if (needs_release(config, &needed) && needed != 0 && needed != release) *of_model = needed;
        return gpu->absence(of, config);
      }};
  Selector selector = Selector::load(*model, request);
  const bool other_release = *of_model != 0 || !same_library_;
  if (other_release) {
    request.absence = [gpu = gpu_](const Signature& of, const KernelConfig& config) {
      if (needs_release(config)) return std::string("it needs another release of cuBLASLt");
      return gpu->absence(of, config);
    };
    selector = Selector::load(*model, request);
  }
  if (*of_model != 0)
    restrict("the program has loaded cuBLASLt " + std::to_string(release_) + ", model " +
             model->filename().string() + " knows " + std::to_string(*of_model));
  Registry registry;
  registry.add(*gpu_);
  Solver solver(selector, std::move(registry), {.limits = kLimits});
  found->second.reset(new Chooser{std::move(selector), std::move(solver), other_release});
  return found->second.get();
}

void report_without_class(const char* why) noexcept {
  static std::atomic<bool> reported = false;
  if (!reported.exchange(true)) kscout_say("%s (--report counts such calls)", why);
}

void Server::set_alignment(const Solution& solution, Decision& decision) {
  const bool any_address = solution.choice.config.space->provider == hopper_provider().name();
  decision.workspace_bytes = decision.launch->workspace_bytes();
  decision.aligned_a = !any_address && !solution.form.copies_a;
  decision.aligned_b = !any_address && !solution.form.copies_b;
  decision.aligned_c = !any_address && !solution.form.copies_c;
}

void Server::choose_in_class(const GemmProblem& problem, Decision& decision) {
  const Limits limits = {.deterministic = true, .batch_invariant = true};
  if (!classes_) {
    Registry registry;
    registry.add(*gpu_);
    const Selector selector = Selector::analytic({.provider = std::string(gpu_->provider_for(Op::gemm)),
                                                  .device = gpu_->device(),
                                                  .backend = std::string(gpu_->name()),
                                                  .library = library_release(*gpu_)});
    classes_ = std::make_unique<Solver>(selector, std::move(registry), DispatchPolicy{.limits = limits});
  }
  Solution solution = classes_->solve(problem, gpu_->space(), limits);
  if (!same_library_ && needs_release(solution.choice.config)) {
    decision.why = Passed::release;
    return;
  }
  decision.launch = classes_->make_ready(problem, solution, limits);
  set_alignment(solution, decision);
}

void Server::choose(const GemmProblem& problem, Decision& decision) {
  Chooser* const by = chooser(problem);
  if (!by) {
    decision.why = Passed::model;
    return;
  }
  // The library also suggests algorithms that are known to give wrong results.
  const auto suggested = gpu_->suggestions(problem, 1);
  if (!suggested.empty() && same_library_) {
    const Verdict verdict = rule_verdict(problem, suggested.front(), gpu_->device());
    decision.replaces_wrong = verdict.status == VerdictStatus::refused && !verdict.since.empty();
  }
  if (const Choice* const timed = timings_.find(problem, kLimits);
      timed && is_library(timed->config) && !decision.replaces_wrong) {
    decision.why = Passed::slower;
    return;
  }
  const std::optional<Solution> known = timed_form(problem);
  Solution solution = known ? *known : by->solver.solve(problem, gpu_->space(), kLimits);
  if (by->other_release &&
      needs_release(solution.choice.config)) {  // KSCOUT_FORCE, or timed under another one
    decision.why = Passed::release;
    return;
  }
  decision.launch = by->solver.make_ready(problem, solution, kLimits);
  const ChoiceSource source = solution.choice.decided_by;
  const bool forced = source == ChoiceSource::forced;
  const bool any_address = solution.choice.config.space->provider == hopper_provider().name();
  if (!forced && source != ChoiceSource::model && source != ChoiceSource::db && !any_address) {
    decision.why = Passed::model;
    return;
  }
  const ExecutionForm& form = solution.form;
  const bool own =
      !form.padded() &&
      (is_first_suggestion(solution.choice.config) ||
       (!suggested.empty() && same_library_ && member_config(solution.choice.config) == suggested.front()));
  const double ours_us =
      std::max(solution.choice.time_us, gpu_->min_us(form.problem, solution.choice.config)) +
      solution.copies_us;
  const Choice* const timed = timings_.find(form.problem, kLimits);
  const bool is_timed = timed && member_config(timed->config) == member_config(solution.choice.config);
  const bool knows_both = is_timed && !form.padded() && !std::isnan(timed->margin);
  const double saved_us = knows_both ? timed->margin * timed->time_us : by->own_us(problem, *gpu_) - ours_us;
  decision.saved_us = std::isnan(saved_us) ? 0 : std::max(saved_us, 0.0);
  const bool gains = saved_us >= settings_.min_gain * ours_us && saved_us >= settings_.min_saved_us;
  if (own || !(is_timed || gains || forced || decision.replaces_wrong)) {
    decision.why = Passed::gain;
    return;
  }
  if (settings_.refine && !is_timed && !forced && !decision.replaces_wrong) {
    decision.contest = std::make_unique<Contest>(
        Contest::Pick{problem, form.problem, solution.choice.config, solution.copies_us});
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
