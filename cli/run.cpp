/// \file
/// Implements `kscout run`: runs problems through the dispatcher, verifies and times them.
#include <cmath>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <kscout/dispatcher.h>

#include "compiler_options.h"
#include "core/fail.h"
#include "core/names.h"
#include "dispatch/timed_choice.h"
#include "measure/load_watch.h"
#include "op/problem_sets.h"
#include "options.h"
#include "run/runner.h"
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
  std::string backend, model, classes;
  bool compile = false;
  CompilerOptions compiler;
  std::string kernels;  ///< folder of compiled kernels
  DispatchPolicy policy;
  double seconds = 0.3;
  double timeout_s = 0;  ///< RunRequest::timeout_s
  Format format = Format::text;
};

/// Whether it is a backend of this program on a GPU, here or not: those have the names of their memories.
bool is_of_gpu(std::string_view backend) {
  return find_word(backend, EnumWords<MemoryKind>::words).value_or(0) != 0;
}

/// The backends to choose from: host-memory backends and known kernel libraries, or the requested backend.
Registry registry_of(const RunOptions& options) {
  Registry one;
  if (is_of_gpu(options.backend)) {
    if (options.policy.threads > 0)
      fail(Errc::invalid_argument,
           "--threads {}: kernels of backend {} take no threads of the CPU; leave it out",
           options.policy.threads, options.backend);
    if (!options.libraries.indexes.empty()) {
      fail(Errc::invalid_argument,
           "--library {}: backend {} takes compiled kernels from the libraries on KSCOUT_LIBRARY_PATH; name "
           "it there",
           options.libraries.indexes.front(), options.backend);
    }
    one.add(backend(options.backend));
    return one;
  }
  const Registry all = options.libraries.registry();
  if (options.backend.empty()) {
    for (const auto& backend : all.backends()) {
      if (!is_of_gpu(backend->name())) one.add(backend);  // used only on request
    }
    return one;
  }
  all.backend(options.backend);  // throws for an unknown one
  for (const auto& backend : all.backends()) {
    if (backend->name() == options.backend) one.add(backend);
  }
  return one;
}

/// Warns about missing folders of the search path, or a model of another device.
void warn_of_model(const RunOptions& options, const Registry& registry) {
  if (options.model.empty()) return warn_of_model_path();
  std::vector<std::string> here;
  for (const auto& one : registry.backends()) here.push_back(one->device().name);
  warn_of_absent_device(model_device(options.model), std::move(here));
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

/// Stores the times of configs that computed the problem as it was asked for, beside the decisions of --db.
/// Returns why it could not.
std::string keep_times(const RunOptions& options, const Problem& problem, std::span<const RanConfig> ran) {
  if (options.policy.db.empty()) return "";
  std::vector<StoredTiming> timings;
  for (const RanConfig& one : ran) {
    if (one.backend && one.as_asked && !one.padded && !one.crashed() && !one.wrong() && one.time.median > 0)
      timings.push_back(timing_of(problem, one.name, one.time.median, *one.backend));
  }
  try {
    DecisionDb(options.policy.db).put({}, timings);
    return "";
  } catch (const Error& error) {
    return fmt::format("the times are not stored: {}", error.what());
  }
}

void run_problem(const RunOptions& options, const Problem& problem, Runner& runner, RunTable& table,
                 RunFailures& failures) {
  const Op op = signature_of(problem).op;
  const std::string provider(is_of_gpu(options.backend) ? backend(options.backend).provider_for(op)
                                                        : "native");
  check_rules(provider, op, options.policy.rules);
  const std::span<const RanConfig> ran = runner.run(problem);
  for (const RanConfig& one : ran) {
    if (one.crashed() && failures.failure.empty())
      failures.failure = fmt::format("{} {} on {}", one.name, one.crash, print(problem));
    if (!one.wrong()) continue;
    failures.wrong = true;
    fmt::print(stderr, "kscout: {} gives wrong results on {}: {}\n", one.name, print(problem), one.where);
  }
  const std::string lost = keep_times(options, problem, ran);
  if (failures.failure.empty()) failures.failure = runner.report().warnings;
  if (failures.failure.empty()) failures.failure = lost;
  table.add(problem, ran);
  if (options.format == Format::text) {
    fmt::print("{} on {}\n", print(problem), ran.front().device);
    table.print_rows(Format::text);
    std::fflush(stdout);  // prints each problem of a list when it is done
  }
  warn_of_far_times(ran, runner.report().load);
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
  check_classes_option(options.policy.limits, options.classes);
  options.policy.classes = options.classes;
  if (options.compile) compile_named(options);
  const bool list = !options.file.empty();
  options.problem.refuse_beside_list(options.file);
  const auto problems = list ? read_any_problems(options.file) : std::vector{options.problem.any_problem()};
  const Registry registry = registry_of(options);
  RunRequest request{.configs = options.configs,
                     .model = options.model,
                     .policy = options.policy,
                     .seconds = options.seconds,
                     .timeout_s = options.timeout_s};
  if (request.configs.empty()) request.configs = {"auto"};
  request.opening = [&] { warn_of_model(options, registry); };
  request.named = [](const std::string& name, const Problem& problem) { return named_config(name, problem); };
  request.note = [](const std::string& text) { fmt::print(stderr, "kscout: {}\n", text); };
  Runner runner(std::move(request), registry);
  RunTable table;
  RunFailures failures;
  for (std::size_t i = 0; i < problems.size(); ++i) {
    if (i > 0 && options.format == Format::text) fmt::print("\n");
    try {
      run_problem(options, problems[i], runner, table, failures);
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
                  "file of problems, run one after the other: lines gemm:MxNxK[:dtype][:layout]..., "
                  "conv_fwd:NxCxHxW:KxYxX... and of other operations, in any order, or CSV of one operation");
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
  add_classes_option(verb, options->classes);
  verb.add_option(
      "--db", options->policy.db,
      "file of decisions: stores the result of a search and uses it the next time; keeps the times of "
      "the configs that ran for train --db");
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
