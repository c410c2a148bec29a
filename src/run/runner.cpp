#include "run/runner.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include <sys/prctl.h>
#include <unistd.h>

#include <kscout/provider.h>

#include "core/fail.h"
#include "core/log.h"
#include "dispatch/padding.h"
#include "dispatch/solver.h"
#include "measure/measured_backend.h"
#include "measure/timing.h"
#include "measure/verified_launch.h"
#include "select/model.h"

namespace kscout {

namespace {

/// Truncates a long text.
template <std::size_t N>
void store_text(std::string_view text, char (&to)[N]) {
  const std::size_t length = std::min(text.size(), N - 1);
  std::memcpy(to, text.data(), length);
  to[length] = 0;
}

/// Stores the choice for `problem` and the form in which it runs.
void keep_choice(const Problem& problem, const ExecutionForm& form, const Choice& choice, Backend& backend,
                 RanConfig& ran) {
  const Device& device = backend.device();
  ran.as_asked = form.problem == problem;
  ran.padded = form.padded();
  if (!ran.as_asked) store_text(print(form.problem), ran.as_run);
  store_text(Selector::name(form.problem, choice), ran.name);
  store_text(device.name, ran.device);
  ran.decided_by = choice.decided_by;
  ran.predicted_us = choice.time_us;
  ran.host_threads = device.kind == DeviceKind::gpu ? 0 : std::max(host_threads(choice.config), 1);
  ran.backend = &backend;
}

Solver solver_of(const RunRequest& request, const Registry& registry) {
  const DispatchPolicy& policy = request.policy;
  if (request.model.empty()) return {registry, policy};
  if (policy.calls == 0 && !policy.limits.any()) return {Selector::load(request.model), registry, policy};
  const Model model = Model::load(request.model);
  Selector selector = Selector::load(request.model, {.provider = std::string(model.provider()),
                                                     .device = model.device(),
                                                     .rules = model.data().families.front().rules,
                                                     .calls = policy.calls,
                                                     .limits = policy.limits,
                                                     .classes = policy.classes});
  for (const std::string& warning : selector.warnings()) request.note("warning: " + warning);
  return {std::move(selector), registry, policy};
}

/// Ends this process, a child, unless the call of a kernel returns within a time limit.
class CallLimit {
 public:
  explicit CallLimit(double seconds) { end_child_after(seconds); }
  ~CallLimit() { end_child_after(0); }
  CallLimit(const CallLimit&) = delete;
  CallLimit& operator=(const CallLimit&) = delete;
};

/// A config that is ready to run.
struct ReadyConfig {
  RanConfig* ran;
  std::int32_t position;
  std::unique_ptr<Launch> launch = {};
  std::unique_ptr<VerifiedLaunch> verified = {};  ///< owns the launch once there are operands
};
using ReadyConfigs = std::vector<ReadyConfig>;

/// Prepares the solution on operands in the memory of the first backend that has one, in the order of the
/// registry.
Solution solve_somewhere(const Problem& problem, Solver& solver) {
  std::vector<MemorySpace> spaces;
  for (const auto& backend : solver.registry().backends()) {
    if (std::ranges::find(spaces, backend->space()) == spaces.end()) spaces.push_back(backend->space());
  }
  for (std::size_t i = 0; i + 1 < spaces.size(); ++i) {
    try {
      return solver.solve(problem, spaces[i], solver.limits_with({}));
    } catch (const Error& error) {
      if (error.code() != Errc::unsupported) throw;
    }
  }
  return solver.solve(problem, spaces.empty() ? std::nullopt : std::optional(spaces.back()),
                      solver.limits_with({}));
}

/// Which kernel stands for a model's config that leaves axes unknown.
std::string completed_text(const Problem& problem, const Solution& solution) {
  const Signature signature = signature_of(solution.form.problem);
  return fmt::format(
      "{}: the model's choice {} leaves axes open; of the {} of {} that agree with it, {} has the lowest "
      "analytic cost",
      print(problem), config_name(signature, solution.model_config), solution.agreeing,
      solution.backend->name(), config_name(signature, solution.choice.config));
}

/// Uses the selector's choice.
void use_choice(ReadyConfig& one, const RunRequest& request, const Problem& problem, Solver& solver) {
  Solution solution = solve_somewhere(problem, solver);
  one.launch = solver.make_ready(problem, solution, solver.limits_with({}));
  if (solution.model_config.space) request.note(completed_text(problem, solution));
  keep_choice(problem, solution.form, solution.choice, *solution.backend, *one.ran);
  store_text(word(solution.choice.source), one.ran->source);
}

/// Uses a given config.
void use_config(ReadyConfig& one, const Problem& problem, const KernelConfig& config, Solver& solver) {
  Backend& backend = solver.backend_of(problem, config);
  keep_choice(problem, direct_form(problem), {.config = config}, backend, *one.ran);
  const Limits limits = solver.limits_with({});
  one.launch =
      limits.any() ? backend.prepare_within(problem, config, limits) : backend.prepare(problem, config);
}

void make_ready(ReadyConfig& one, const std::string& name, const RunRequest& request, const Problem& problem,
                Solver& solver) {
  if (name == "auto") return use_choice(one, request, problem, solver);
  const bool is_default = name == "default";
  const auto default_config = [&] {
    const Family family =
        solver.registry().kernels(signature_of(problem), request.policy.rules).front().family;
    return KernelConfig(family.configs[family.default_config]);
  };
  use_config(one, problem, is_default ? default_config() : request.named(name, problem), solver);
  store_text(is_default ? name : "named", one.ran->source);
}

/// The single device that all configs run on.
Instruments& device_of(const ReadyConfigs& configs) {
  Backend& first = *configs.front().ran->backend;
  Instruments& device = instruments_of(first);
  for (const ReadyConfig& one : configs) {
    if (&instruments_of(*one.ran->backend) != &device)
      fail(Errc::invalid_argument, "--config: {} and {} run on different devices; run them one by one",
           first.name(), one.ran->backend->name());
  }
  return device;
}

void verify(ReadyConfig& one, GemmOperands& operands, const Reference& reference, double timeout_s) {
  one.verified = std::make_unique<VerifiedLaunch>(std::move(one.launch), operands);
  {
    const CallLimit limit(timeout_s);
    one.verified->run();
    one.ran->setup_us = one.verified->packing_us();
  }
  const Verification found = one.verified->check(reference);
  one.ran->error = found.error;
  store_text(found.where, one.ran->where);
}

/// What is timed: the runs of a launch, or its copies alone.
struct TimedPart {
  std::int32_t position;  ///< of the config
  VerifiedLaunch* whole;
  Launch* part;
  double expected_us = 0;
};

/// Interleaved samples of all parts; each part gets about `seconds`.
std::vector<SampleSummary> samples_us(std::vector<TimedPart>& all, Instruments& device, double seconds,
                                      double timeout_s, RunReport& report) {
  const auto time_us = [&](const TimedPart& one, int calls) {
    report.running = one.position;
    const CallLimit limit(timeout_s + device.batch_us() / 1e6);
    return one.whole->time_us(*one.part, calls);
  };
  for (TimedPart& one : all) one.expected_us = time_us(one, 1);
  const RoundsRule rule{
      .rounds = 1000, .least = 3, .budget_us = seconds * 1e6 * static_cast<double>(all.size())};
  return time_in_rounds(all.size(), rule, [&](std::size_t i) {
    const double calls = calls_of_batch(device.batch_us(), all[i].expected_us);
    return std::optional(time_us(all[i], static_cast<int>(calls)));
  });
}

void time_configs(ReadyConfigs& configs, Instruments& device, double seconds, double timeout_s,
                  RunReport& report) {
  std::vector<TimedPart> all;
  for (const ReadyConfig& one : configs)
    all.push_back({one.position, one.verified.get(), &one.verified->launch()});
  std::vector<std::unique_ptr<CopiesLaunch>> copies(configs.size());  // null for a launch without copies
  std::vector<std::size_t> places(configs.size());                    // positions of the copies in all
  for (std::size_t i = 0; i < configs.size(); ++i) {
    VerifiedLaunch& whole = *configs[i].verified;
    if (!configs[i].ran->padded) continue;
    copies[i] = std::make_unique<CopiesLaunch>(dynamic_cast<PaddedLaunch&>(whole.launch()));
    places[i] = all.size();
    all.push_back({configs[i].position, &whole, copies[i].get()});
  }
  const auto timed = samples_us(all, device, seconds, timeout_s, report);
  for (std::size_t i = 0; i < configs.size(); ++i) {
    configs[i].ran->time = timed[i];
    configs[i].ran->copies_us = copies[i] ? timed[places[i]].median : Choice::unknown;
  }
}

/// Stores the error of the process that runs kernels.
void keep_error(Errc code, const char* message, RunReport& report) {
  report.failed = true;
  report.code = code;
  store_text(message, report.message);
}

}  // namespace

double RunRequest::timeout_of(const Problem& problem) const {
  // Seconds; min FLOP per second of a kernel that does not hang.
  constexpr double kUsual = 60, kSlowestFlops = 1e8;
  return timeout_s > 0 ? timeout_s : std::max(kUsual, flop_count(problem) / kSlowestFlops);
}

Runner::Runner(RunRequest request, const Registry& registry)
    : request_(std::move(request)), registry_(registry), ran_(request_.configs.size()), report_(1) {}

/// Does all work that opens a device or calls a kernel. Skips configs that crashed before.
void Runner::run_here(const Problem& problem) {
  RunReport& report = report_.all().front();
  if (!std::exchange(report.opened, true)) request_.opening();
  Solver solver = solver_of(request_, registry_);
  ReadyConfigs configs;
  for (std::size_t i = 0; i < request_.configs.size(); ++i) {
    RanConfig& ran = ran_.all()[i];
    if (ran.crashed()) continue;
    report.running = static_cast<std::int32_t>(i);
    configs.push_back({&ran, report.running});
    make_ready(configs.back(), request_.configs[i], request_, problem, solver);
    report.running = -1;
  }
  std::string warnings;
  for (const std::string& warning : solver.warnings()) warnings += (warnings.empty() ? "" : "; ") + warning;
  store_text(warnings, report.warnings);
  if (configs.empty()) return;

  Instruments& device = device_of(configs);
  GemmOperands operands(device);
  operands.make(problem, 1);
  const auto reference = make_reference(problem, operands);
  const LoadWatch watch;
  const double timeout_s = request_.timeout_of(problem);
  for (ReadyConfig& one : configs) {
    report.running = one.position;
    verify(one, operands, *reference, timeout_s);
  }
  time_configs(configs, device, request_.seconds, timeout_s, report);
  report.running = -1;
  report.load = watch.seen();
}

std::span<const RanConfig> Runner::run(const Problem& problem) {
  constexpr double kNoLimit = 1e6;  // except for calls of kernels: the user can interrupt other work
  RunReport& report = report_.all().front();
  for (RanConfig& one : ran_.all()) one = {};
  for (;;) {
    report = {.opened = report.opened};
    const pid_t parent = getpid();
    ChildResult child = in_child(kNoLimit, [&] {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) return std::string();
      try {
        run_here(problem);
      } catch (const Error& error) {
        keep_error(error.code(), error.what(), report);
      } catch (const std::exception& error) {
        keep_error(Errc::device_failure, error.what(), report);
      }
      report.lost_log = Log::lost_lines();
      return std::string("done");
    });
    if (report.lost_log) Log::set_lost_lines();
    if (report.failed) throw Error(report.code, report.message);
    if (child.failure.empty()) return ran_.all();
    if (report.running < 0) fail(Errc::device_failure, "the process that runs kernels {}", child.failure);
    const auto position = static_cast<std::size_t>(report.running);
    RanConfig& last = ran_.all()[position];
    last.timed_out = child.timed_out;
    if (child.timed_out)
      child.failure = fmt::format("did not end within {:.4g} s (--timeout)", request_.timeout_of(problem));
    store_text(child.failure, last.crash);
    if (!last.backend) {
      fail(Errc::device_failure,
           "a kernel {} while {} was chosen; kscout search --measure times each config in a process of its "
           "own",
           child.failure, request_.configs[position]);
    }
  }
}

}  // namespace kscout
