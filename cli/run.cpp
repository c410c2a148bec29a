/// \file
/// Implements `kscout run`: runs problems through the dispatcher, verifies and times them.
#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <kscout/dispatcher.h>
#include <kscout/provider.h>

#include "compiler_options.h"
#include "core/fail.h"
#include "core/log.h"
#include "core/process.h"
#include "dispatch/padding.h"
#include "dispatch/solver.h"
#include "measure/load_watch.h"
#include "measure/timing.h"
#include "op/operands.h"
#include "op/problem_sets.h"
#include "op/reference.h"
#include "options.h"
#include "run_report.h"
#include "select/model.h"
#include "verbs.h"

namespace kscout::cli {

namespace {

struct RunOptions {
  ProblemOptions problem;
  std::string file;
  std::vector<std::string> configs;
  LibraryOptions libraries;
  std::string backend, model;
  bool compile = false;
  CompilerOptions compiler;
  std::string kernels;  ///< folder of compiled kernels
  DispatchPolicy policy;
  double seconds = 0.3;
  double timeout_s = 0;  ///< seconds for one call of a kernel; 0 = derived from the problem
  Format format = Format::text;

  double timeout_of(const Problem& asked) const {
    // Seconds; min FLOP per second of a kernel that does not hang.
    constexpr double kUsual = 60, kSlowestFlops = 1e8;
    return timeout_s > 0 ? timeout_s : std::max(kUsual, flop_count(asked) / kSlowestFlops);
  }
};

constexpr std::string_view kGpu = "cuda";

/// The backends to choose from: host-memory backends and known kernel libraries, or the requested backend.
Registry registry_of(const RunOptions& options) {
  Registry one;
  if (options.backend == kGpu) {
    if (options.policy.threads > 0)
      fail(Errc::invalid_argument,
           "--threads {}: kernels of backend {} take no threads of the CPU; leave it out",
           options.policy.threads, kGpu);
    if (!options.libraries.indexes.empty()) {
      fail(Errc::invalid_argument,
           "--library {}: backend {} takes compiled kernels from the libraries on KSCOUT_LIBRARY_PATH; name "
           "it there",
           options.libraries.indexes.front(), kGpu);
    }
    one.add(backend(kGpu));
    return one;
  }
  const Registry all = options.libraries.registry();
  if (options.backend.empty()) {
    for (const auto& backend : all.backends()) {
      if (backend->name() != kGpu) one.add(backend);  // used only on request
    }
    return one;
  }
  all.backend(options.backend);  // throws for an unknown one
  for (const auto& backend : all.backends()) {
    if (backend->name() == options.backend) one.add(backend);
  }
  return one;
}

Solver solver_of(const RunOptions& options, const Signature& signature, const Registry& registry) {
  const std::string provider(options.backend == kGpu ? backend(kGpu).provider_for(signature.op) : "native");
  check_rules(provider, signature.op, options.policy.rules);
  if (options.model.empty()) return {registry, options.policy};
  if (options.policy.calls == 0 && !options.policy.limits.any())
    return {Selector::load(options.model), registry, options.policy};
  const Model model = Model::load(options.model);
  Selector selector = Selector::load(options.model, {.provider = std::string(model.provider()),
                                                     .device = model.device(),
                                                     .rules = model.data().families.front().rules,
                                                     .calls = options.policy.calls,
                                                     .limits = options.policy.limits});
  for (const std::string& warning : selector.warnings()) fmt::print(stderr, "kscout: warning: {}\n", warning);
  return {std::move(selector), registry, options.policy};
}

/// Warns about missing folders of the search path, or a model of another device.
void warn_of_model(const RunOptions& options, const Registry& registry) {
  if (options.model.empty()) return warn_of_model_path();
  std::vector<std::string> here;
  for (const auto& one : registry.backends()) here.push_back(one->device().name);
  warn_of_absent_device(model_device(options.model), std::move(here));
}

/// The default config of the rule set.
KernelConfig default_config(const RunOptions& options, const Registry& registry, const Signature& signature) {
  const auto [backend, family] = registry.kernels(signature, options.policy.rules).front();
  return family.configs[family.default_config];
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
  std::unique_ptr<GuardedBuffer> workspace = {};
  std::unique_ptr<GuardedBuffer> packed = {};  ///< the filter, of a launch that gets it packed once

  Buffers buffers(GemmOperands& operands) const {
    Buffers all = operands.buffers();
    if (launch->packed_bytes() > 0) all.packed = packed->data();
    return all;
  }
};
using Candidates = std::vector<std::unique_ptr<ReadyConfig>>;

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

/// Says which kernel stands for a model's config that leaves axes unknown.
void print_completed(const Problem& problem, const Solution& solution) {
  if (!solution.model_config.space) return;
  const Signature signature = signature_of(solution.form.problem);
  fmt::print(
      stderr,
      "kscout: {}: the model's choice {} leaves axes open; of the {} of {} that agree with it, {} has the "
      "lowest analytic cost\n",
      print(problem), config_name(signature, solution.model_config), solution.agreeing,
      solution.backend->name(), config_name(signature, solution.choice.config));
}

void choose(ReadyConfig& one, const Problem& problem, Solver& solver) {
  Solution solution = solve_somewhere(problem, solver);
  one.launch = solver.make_ready(problem, solution, solver.limits_with({}));
  print_completed(problem, solution);
  keep_choice(problem, solution.form, solution.choice, *solution.backend, *one.ran);
  store_text(word(solution.choice.source), one.ran->source);
}

/// Uses a config that the user named.
void take(ReadyConfig& one, const Problem& problem, const KernelConfig& config, Solver& solver) {
  const Registry::Support support = solver.registry().supports(problem, config);
  if (!support.backend) fail(Errc::unsupported, "{}: {}", print(problem), support.refusal);
  if (const std::string why = solver.thread_refusal(*support.backend, config); !why.empty())
    fail(Errc::unsupported, "{}: {}", print(problem), why);
  keep_choice(problem, direct_form(problem), {.config = config}, *support.backend, *one.ran);
  const Limits limits = solver.limits_with({});
  one.launch = limits.any() ? support.backend->prepare_within(problem, config, limits)
                            : support.backend->prepare(problem, config);
}

/// Uses the selector's choice, or the config that the command line names.
void make_ready(ReadyConfig& one, const std::string& name, const RunOptions& options, const Problem& problem,
                Solver& solver) {
  if (name == "auto") return choose(one, problem, solver);
  const KernelConfig config = name == "default"
                                  ? default_config(options, solver.registry(), signature_of(problem))
                                  : named_config(name, problem);
  take(one, problem, config, solver);
  store_text(name == "default" ? name : "named", one.ran->source);
}

/// The single device that all candidates run on.
Instruments& device_of(const Candidates& candidates) {
  Backend& first = *candidates.front()->ran->backend;
  Instruments& device = instruments_of(first);
  for (const auto& one : candidates) {
    if (&instruments_of(*one->ran->backend) != &device)
      fail(Errc::invalid_argument, "--config: {} and {} run on different devices; run them one by one",
           first.name(), one->ran->backend->name());
  }
  return device;
}

/// Packs the filter of a launch that gets it packed once; times a few packings.
void pack(ReadyConfig& one, const GemmOperands& operands) {
  constexpr int kPackings = 5;
  one.ran->setup_us = Choice::unknown;
  if (one.launch->packed_bytes() == 0) return;
  std::vector<double> samples;
  for (int i = 0; i < kPackings; ++i)
    samples.push_back(pack_us(*one.launch, operands.device().memory(), operands.b(), one.packed->data()));
  one.ran->setup_us = summarise(samples).median;
}

void verify(ReadyConfig& one, GemmOperands& operands, const Reference& reference, double timeout_s) {
  one.workspace = std::make_unique<GuardedBuffer>(3, operands.device());
  one.workspace->resize(one.launch->workspace_bytes());
  one.packed = std::make_unique<GuardedBuffer>(4, operands.device());
  one.packed->resize(one.launch->packed_bytes());
  operands.reset_c();
  {
    const CallLimit limit(timeout_s);
    pack(one, operands);
    one.launch->run(one.buffers(operands), one.workspace->data());
  }
  Verification verified = reference.check(operands.result());
  for (const std::string& damage : {operands.damage(), one.workspace->damage(), one.packed->damage()}) {
    if (!damage.empty()) verified = {std::numeric_limits<double>::infinity(), damage};
  }
  one.ran->error = verified.error;
  store_text(verified.where, one.ran->where);
}

/// Runs only the copies of a padded launch.
class CopiesLaunch final : public Launch {
 public:
  explicit CopiesLaunch(PaddedLaunch& padded) : padded_(padded) {}
  std::size_t workspace_bytes() const noexcept override { return padded_.workspace_bytes(); }
  void run(const Buffers& buffers, void* workspace, Stream) override {
    padded_.run_copies(buffers, workspace);
  }

 private:
  PaddedLaunch& padded_;
};

/// What is timed: the runs of a launch, or its copies alone.
struct Timed {
  std::int32_t position;  ///< of the config
  Launch* launch;
  const ReadyConfig* config;
  double expected_us = 0;
};

/// Interleaved samples of all launches; each launch gets about `seconds`.
std::vector<SampleSummary> samples_us(std::vector<Timed>& all, GemmOperands& operands, double seconds,
                                      double timeout_s, RunReport& report) {
  Instruments& device = operands.device();
  const auto time_us = [&](const Timed& one, int calls) {
    report.running = one.position;
    const CallLimit limit(timeout_s + device.batch_us() / 1e6);
    return device.time_us(*one.launch, one.config->buffers(operands), one.config->workspace->data(), calls);
  };
  for (Timed& one : all) one.expected_us = time_us(one, 1);
  const RoundsRule rule{
      .rounds = 1000, .least = 3, .budget_us = seconds * 1e6 * static_cast<double>(all.size())};
  return time_in_rounds(all.size(), rule, [&](std::size_t i) {
    const double calls = calls_of_batch(device.batch_us(), all[i].expected_us);
    return std::optional(time_us(all[i], static_cast<int>(calls)));
  });
}

void time_candidates(Candidates& candidates, GemmOperands& operands, double seconds, double timeout_s,
                     RunReport& report) {
  std::vector<Timed> all;
  for (const auto& one : candidates) all.push_back({one->position, one->launch.get(), one.get()});
  std::vector<std::unique_ptr<CopiesLaunch>> copies(candidates.size());  // null for a launch without copies
  std::vector<std::size_t> places(candidates.size());                    // positions of the copies in all
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (!candidates[i]->ran->padded) continue;
    copies[i] = std::make_unique<CopiesLaunch>(dynamic_cast<PaddedLaunch&>(*candidates[i]->launch));
    places[i] = all.size();
    all.push_back({candidates[i]->position, copies[i].get(), candidates[i].get()});
  }
  const auto timed = samples_us(all, operands, seconds, timeout_s, report);
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    candidates[i]->ran->time = timed[i];
    candidates[i]->ran->copies_us = copies[i] ? timed[places[i]].median : Choice::unknown;
  }
}

/// Does all work that opens a device or calls a kernel. Runs in a child process and writes the results to
/// `all` and `report`. Skips configs that crashed before.
void run_configs(const RunOptions& options, const Problem& problem, const Registry& registry,
                 std::span<const std::string> names, std::span<RanConfig> all, RunReport& report) {
  if (!std::exchange(report.warned, true)) warn_of_model(options, registry);
  Solver solver = solver_of(options, signature_of(problem), registry);
  Candidates candidates;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (all[i].crashed()) continue;
    report.running = static_cast<std::int32_t>(i);
    candidates.push_back(std::make_unique<ReadyConfig>(ReadyConfig{&all[i], report.running}));
    make_ready(*candidates.back(), names[i], options, problem, solver);
    report.running = -1;
  }
  std::string warnings;
  for (const std::string& warning : solver.warnings()) warnings += (warnings.empty() ? "" : "; ") + warning;
  store_text(warnings, report.warnings);
  if (candidates.empty()) return;

  GemmOperands operands(device_of(candidates));
  operands.make(problem, 1);
  const auto reference = make_reference(problem, operands);
  const LoadWatch watch;
  for (const auto& one : candidates) {
    report.running = one->position;
    verify(*one, operands, *reference, options.timeout_of(problem));
  }
  time_candidates(candidates, operands, options.seconds, options.timeout_of(problem), report);
  report.running = -1;
  report.load = watch.seen();
}

/// Memory that child processes share with this one.
template <class T>
class SharedArray {
 public:
  explicit SharedArray(std::size_t count) : bytes_(count * sizeof(T)), count_(count) {
    void* const at = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) fail(Errc::device_failure, "no shared memory of {} bytes", bytes_);
    data_ = static_cast<T*>(at);
    for (T& one : all()) one = T{};
  }
  ~SharedArray() { munmap(data_, bytes_); }
  SharedArray(const SharedArray&) = delete;
  SharedArray& operator=(const SharedArray&) = delete;
  std::span<T> all() const noexcept { return {data_, count_}; }

 private:
  std::size_t bytes_, count_;
  T* data_ = nullptr;
};

/// Runs all configs in a child process, and repeats without each config whose kernel crashes it. Throws the
/// child's error.
void run_isolated(const RunOptions& options, const Problem& problem, const Registry& registry,
                  std::span<const std::string> names, std::span<RanConfig> all, RunReport& report) {
  constexpr double kNoLimit = 1e6;  // except for calls of kernels: the user can interrupt other work
  for (;;) {
    const bool warned = report.warned;
    report = {};
    report.warned = warned;
    const pid_t parent = getpid();
    ChildResult child = in_child(kNoLimit, [&] {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) return std::string();
      try {
        run_configs(options, problem, registry, names, all, report);
      } catch (const Error& error) {
        report.failed = true;
        report.code = error.code();
        store_text(error.what(), report.message);
      } catch (const std::exception& error) {
        report.failed = true;
        report.code = Errc::device_failure;
        store_text(error.what(), report.message);
      }
      report.lost_log = Log::lost_lines();
      return std::string("done");
    });
    if (report.lost_log) Log::set_lost_lines();
    if (report.failed) throw Error(report.code, report.message);
    if (child.failure.empty()) return;
    if (report.running < 0) fail(Errc::device_failure, "the process that runs kernels {}", child.failure);
    RanConfig& last = all[static_cast<std::size_t>(report.running)];
    last.timed_out = child.timed_out;
    if (child.timed_out) {
      child.failure = fmt::format("did not end within {:.4g} s (--timeout)", options.timeout_of(problem));
    }
    store_text(child.failure, last.crash);
    if (!last.backend) {
      fail(Errc::device_failure,
           "a kernel {} while {} was chosen; kscout search --measure times each config in a process of its "
           "own",
           child.failure, names[static_cast<std::size_t>(report.running)]);
    }
  }
}

/// Warns about times far from predictions by a model or an earlier timing; analytic costs are only rough.
void warn_of_far_times(std::span<const RanConfig> all, const Load& load) {
  for (const RanConfig& one : all) {
    const ChoiceSource by = one.decided_by;
    if (one.crashed() || (by != ChoiceSource::model && by != ChoiceSource::db)) continue;
    const double kernel_us = one.time.median - (std::isnan(one.copies_us) ? 0 : one.copies_us);
    const double ratio = kernel_us / one.predicted_us;
    if (!(ratio > kFarFromPrediction || ratio < 1 / kFarFromPrediction)) continue;
    fmt::print(stderr,
               "kscout: warning: {} took {:.4g} us, {:.3g} times the predicted {:.4g} us; likely cause: {}\n",
               one.name, kernel_us, ratio, one.predicted_us,
               ratio > 1
                   ? likely_cause(load, one.host_threads)
                   : "the prediction is of a disturbed or slower machine; kscout tune measures this one");
  }
}

/// Failures of configs that ran. The verb reports them after all problems have their rows.
struct RunFailures {
  std::string failure;  ///< the first crash, or a decision that could not be stored
  bool wrong = false;
};

void run_problem(const RunOptions& options, const Problem& problem, const Registry& registry,
                 std::span<const std::string> names, RunReport& report, RunTable& table,
                 RunFailures& failures) {
  const SharedArray<RanConfig> shared(names.size());
  const std::span<RanConfig> ran = shared.all();
  run_isolated(options, problem, registry, names, ran, report);
  for (const RanConfig& one : ran) {
    if (one.crashed() && failures.failure.empty())
      failures.failure = fmt::format("{} {} on {}", one.name, one.crash, print(problem));
    if (!one.wrong()) continue;
    failures.wrong = true;
    fmt::print(stderr, "kscout: {} gives wrong results on {}: {}\n", one.name, print(problem), one.where);
  }
  if (failures.failure.empty()) failures.failure = report.warnings;
  table.add(problem, ran);
  if (options.format == Format::text) {
    fmt::print("{} on {}\n", print(problem), ran.front().device);
    table.print_rows(Format::text);
    std::fflush(stdout);  // prints each problem of a list when it is done
  }
  warn_of_far_times(ran, report.load);
}

/// Compiles the named kernels, whose names are complete then, and adds their library.
void compile_named(RunOptions& options) {
  const auto is_named = [](const std::string& name) { return name != "auto" && name != "default"; };
  std::vector<NamedConfig> kernels;
  for (const std::string& name : options.configs) {
    if (is_named(name)) kernels.push_back(parse_kernel_to_run(name));
  }
  if (kernels.empty()) fail(Errc::invalid_argument, "--compile: which kernels? name them with --config");
  options.libraries.indexes.push_back(compile_here(kernels, options.compiler, options.kernels).string());
  std::size_t next = 0;
  for (std::string& name : options.configs) {
    if (!is_named(name)) continue;
    name = config_name(kernels[next].signature, kernels[next].config);
    ++next;
  }
}

void run_verb(RunOptions options) {
  options.compiler.refuse_unless(options.compile, "--compile");
  if (options.compile) compile_named(options);
  const bool list = !options.file.empty();
  options.problem.refuse_beside_list(options.file);
  const auto problems = list ? read_any_problems(options.file) : std::vector{options.problem.any_problem()};
  const Registry registry = registry_of(options);
  const auto names = options.configs.empty() ? std::vector<std::string>{"auto"} : options.configs;
  const SharedArray<RunReport> report(1);
  RunTable table;
  RunFailures failures;
  for (std::size_t i = 0; i < problems.size(); ++i) {
    if (i > 0 && options.format == Format::text) fmt::print("\n");
    try {
      run_problem(options, problems[i], registry, names, report.all().front(), table, failures);
    } catch (const Error& error) {
      if (!list || error.code() != Errc::unsupported) throw;
      table.add_uncovered(problems[i], error.what(), options.format);
    }
  }
  if (options.format != Format::text) {
    table.print_rows(options.format);
  } else if (list && table.compared() > 0) {
    fmt::print("\nspeedup of the first config over the last: {:.3g}, geometric mean over {} problems\n",
               table.mean_speedup(), table.compared());
  }
  if (!failures.failure.empty()) fail(Errc::device_failure, "{}", failures.failure);
  if (failures.wrong) throw CheckFailed{};
  if (table.uncovered() > 0)
    fail(Errc::unsupported, "nothing can run {} of {} problems", table.uncovered(), problems.size());
}

}  // namespace

void setup_run(CLI::App& verb) {
  const auto options = std::make_shared<RunOptions>();
  options->problem.add_to(verb);
  verb.add_option("--problems", options->file,
                  "file of problems, run one after the other: lines gemm:MxNxK[:dtype][:layout]... or "
                  "conv_fwd:NxCxHxW:KxYxX..., or CSV");
  verb.add_option(
      "--config", options->configs,
      "run this config instead of the selector's, without copies; repeat to compare with the last ('auto': "
      "the selector's choice, 'default': the rule set's default config)");
  verb.add_option(
      "--backend", options->backend,
      "backend that executes: cpu, cuda or a kernel library's name (default: any that applies, except cuda)");
  options->libraries.add_to(verb);
  auto* compile = verb.add_flag(
      "--compile", options->compile,
      "generate and compile the kernels that --config names (ck_tile, cutlass), then run them; a name "
      "that leaves axes open is completed from the rule sets");
  verb.add_option("--kernels", options->kernels, "--compile: folder of the kernels' sources and library")
      ->default_str("in $XDG_CACHE_HOME/kscout, else ~/.cache/kscout")
      ->needs(compile);
  options->compiler.add_to(verb);
  verb.add_option("--model", options->model,
                  "model folder or .ksf file (default: the first on the search path)");
  verb.add_option("--rules", options->policy.rules, "rule set to choose from when there is no model")
      ->capture_default_str();
  add_word_option(verb, "--fallback", options->policy.fallback,
                  "source of choices when there is no model: analytic costs, or every config measured once");
  add_threads_option(verb, options->policy.threads);
  add_calls_option(verb, options->policy.calls);
  add_limits_options(verb, options->policy.limits);
  verb.add_option("--db", options->policy.db,
                  "file of decisions: stores the result of a search and uses it the next time");
  verb.add_option("--timeout", options->timeout_s, "seconds that one call of a kernel may take")
      ->default_str("60, more for large problems: 0.1 GFLOPS")
      ->check(above_zero(), "POSITIVE");
  verb.add_option("--seconds", options->seconds, "time to measure each config")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 3600.0));
  add_format_option(verb, options->format);
  verb.footer(
      "Selects (model, else analytic cost or a search, else the default config; see column chosen_by),\n"
      "executes, verifies against float64 and times. Column speedup compares with the last --config;\n"
      "spread_percent is the median deviation from the median of the repeats.\n"
      "A problem that no kernel takes directly is padded or copied to another layout: then as_run shows the "
      "problem that\n"
      "the kernel computes and copies_us the measured cost of the copies (part of time_us). A convolution "
      "with\n"
      "prepacked=1 gets its filter packed once: setup_us is the time of packing, not part of time_us.\n"
      "Kernels run in a process of their own: one that crashes or hangs affects only its row (verified: "
      "crashed, timeout). A time\n"
      "that is far from what a model or an earlier timing predicted gets a warning with the likely cause.\n"
      "Exit 1 when a result is wrong, 3 when nothing can run the problem, 4 when a kernel crashes or hangs, "
      "a kernel\n"
      "library fails or --db cannot be written.\n"
      "\n"
      "Examples:\n"
      "  kscout run gemm:16x4096x4096:fp32:rcr\n"
      "  kscout run conv_fwd:1x64x56x56:64x3x3:pad=1\n"
      "  kscout run --m 512 --n 512 --k 512 --layout rrr --config auto --config CONFIG\n"
      "  kscout run --problems shapes.txt --config auto --config default --format csv\n"
      "  kscout run gemm:30x50x70 --library kernels/toy.kscout-library.json --backend toy\n"
      "  kscout run gemm:256x256x256 --fallback exhaustive\n"
      "  kscout run gemm:64x64x64 --threads 1\n"
      "  kscout run conv_fwd:2x64x56x56:128x3x3:bf16:nhwgc:pad=1 --compile --ck-root ck \\\n"
      "    --config grouped_conv_forward_bf16_2d_64x64x64_compv3\n"
      "  kscout run gemm:16x4096x4096:bf16 --backend cuda --model models/gemm_bf16_h200");
  verb.callback([options] { run_verb(*options); });
}

}  // namespace kscout::cli
