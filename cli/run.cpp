/// \file
/// `kscout run`: one problem through the dispatcher, verified and timed.
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <kscout/dispatcher.h>
#include <kscout/provider.h>

#include "core/fail.h"
#include "dispatch/padding.h"
#include "dispatch/solver.h"
#include "measure/operands.h"
#include "measure/samples.h"
#include "measure/timing.h"
#include "measure/verify.h"
#include "options.h"
#include "table.h"
#include "verbs.h"

namespace kscout::cli {

namespace {

struct RunOptions {
  ProblemOptions problem;
  std::vector<std::string> configs;
  LibraryOptions libraries;
  std::string file, backend, model;
  DispatchPolicy policy;
  double seconds = 0.3;
  Format format = Format::text;
};

constexpr std::string_view kGpu = "cuda";

/// The backends to choose from: the CPU and the kernel libraries that are known, or the one that was asked
/// for.
Registry registry_of(const RunOptions& options) {
  Registry one;
  if (options.backend == kGpu) {  // in no list with others: its operands are in the GPU's memory
    if (!options.libraries.indexes.empty()) {
      fail(Errc::invalid_argument,
           "--library {}: backend {} takes compiled kernels from the libraries on KSCOUT_LIBRARY_PATH; name "
           "it there",
           options.libraries.indexes.front(), kGpu);
    }
    one.add(backend(kGpu));
    return one;
  }
  Registry all = options.libraries.registry();
  if (options.backend.empty()) return all;
  all.backend(options.backend);  // throws for an unknown one
  for (const auto& backend : all.backends()) {
    if (backend->name() == options.backend) one.add(backend);
  }
  return one;
}

Solver solver_of(const RunOptions& options, const Signature& signature, const Registry& registry) {
  const std::string provider(options.backend == kGpu ? backend(kGpu).provider() : "native");
  if (!is_conv(signature.op)) check_rules(provider, signature.op, options.policy.rules);
  if (options.model.empty()) {
    warn_of_model_path();
    return {registry, options.policy};
  }
  Selector selector = Selector::load(options.model);
  const auto backends = registry.backends();
  const auto is_own = [&](const auto& one) { return one->device().name == selector.device().name; };
  if (std::ranges::none_of(backends, is_own)) {
    fmt::print(stderr, "kscout: warning: {}\n",
               foreign_device_warning(selector.device(), backends.front()->device()));
  }
  return {std::move(selector), registry, options.policy};
}

/// The config that the rule set names for when nothing better is known.
KernelConfig default_config(const RunOptions& options, const Registry& registry, const Signature& signature) {
  const auto [backend, family] = registry.kernels(signature, options.policy.rules).front();
  return family.configs[family.default_config];
}

/// A config to run and who chose it, made ready.
struct ReadyConfig {
  std::string source;
  Choice choice;
  Backend* backend = nullptr;
  std::optional<Form> form = {};  ///< of a GEMM
  std::unique_ptr<Launch> launch = {};
  std::unique_ptr<GuardedBuffer> workspace = {};
  Verification verified = {};

  bool padded() const { return form && form->padded(); }
  /// The problem as the kernel sees it.
  Problem as_run(const Problem& asked) const { return form ? Problem(form->problem) : asked; }
};
using Candidates = std::vector<std::unique_ptr<ReadyConfig>>;

void choose(ReadyConfig& one, const GemmProblem& problem, Solver& solver) {
  Solution solution = solver.solve(problem);
  one.launch = solver.make_ready(problem, solution);
  one.choice = solution.choice;
  one.backend = solution.backend;
  one.form = solution.form;
}
void choose(ReadyConfig& one, const ConvProblem& problem, Solver& solver) {
  ConvSolution solution = solver.solve(problem);
  one.launch = solver.make_ready(problem, solution);
  one.choice = solution.choice;
  one.backend = solution.backend;
}

/// What somebody named, run as it is.
void take(ReadyConfig& one, const Problem& problem, const KernelConfig& config, const Registry& registry) {
  const Registry::Support support = registry.supports(problem, config);
  if (!support.backend) fail(Errc::unsupported, "{}: {}", print(problem), support.refusal);
  one.choice.config = config;
  one.backend = support.backend;
  if (problem.op() == Op::gemm) one.form = direct_form(problem.gemm());
  one.launch = one.backend->prepare(problem, config);
}

/// The selector's choice, or what the command line names.
Candidates candidates_of(const RunOptions& options, const Problem& problem, Solver& solver) {
  Candidates candidates;
  const auto names = options.configs.empty() ? std::vector<std::string>{"auto"} : options.configs;
  for (const auto& name : names) {
    auto one = std::make_unique<ReadyConfig>();
    if (name == "auto") {
      problem.visit([&](const auto& of) { choose(*one, of, solver); });
      one->source = std::string(word(one->choice.source));
    } else {
      const KernelConfig config = name == "default"
                                      ? default_config(options, solver.registry(), signature_of(problem))
                                      : named_config(name, problem);
      take(*one, problem, config, solver.registry());
      one->source = name == "default" ? name : "named";
    }
    candidates.push_back(std::move(one));
  }
  return candidates;
}

/// The one device on which all of them run.
Instruments& device_of(const Candidates& candidates) {
  Instruments& device = instruments_of(*candidates.front()->backend);
  for (const auto& one : candidates) {
    if (&instruments_of(*one->backend) != &device)
      fail(Errc::invalid_argument, "--config: {} and {} run on different devices; run them one by one",
           candidates.front()->backend->name(), one->backend->name());
  }
  return device;
}

void verify(ReadyConfig& one, GemmOperands& operands, const Reference& reference) {
  one.workspace = std::make_unique<GuardedBuffer>(3, operands.device());
  one.workspace->resize(one.launch->workspace_bytes());
  operands.reset_c();
  one.launch->run(operands.buffers(), one.workspace->data());
  one.verified = reference.check(operands.c());
  for (const std::string& damage : {operands.damage(), one.workspace->damage()}) {
    if (!damage.empty()) one.verified = {std::numeric_limits<double>::infinity(), damage};
  }
}

/// Samples in microseconds of every candidate, and the median of the copies that it makes (NaN when it makes
/// none).
struct Times {
  std::vector<SampleSummary> run_us;
  std::vector<double> copies_us;
};

/// The copies of a padded launch, alone.
class CopiesLaunch final : public Launch {
 public:
  explicit CopiesLaunch(PaddedLaunch& padded) : padded_(padded) {}
  std::size_t workspace_bytes() const noexcept override { return padded_.workspace_bytes(); }
  void run(const GemmBuffers& buffers, void* workspace, Stream) override {
    padded_.run_copies(buffers, workspace);
  }

 private:
  PaddedLaunch& padded_;
};

/// Something to time: a run of a launch, or its copies alone.
struct Timed {
  Launch* launch;
  void* workspace;
  double expected_us = 0;
};

/// Samples taken in turns: each gets about `seconds`.
std::vector<SampleSummary> samples_us(std::vector<Timed>& all, GemmOperands& operands, double seconds) {
  Instruments& device = operands.device();
  const auto time_us = [&](const Timed& one, int calls) {
    return device.time_us(*one.launch, operands.buffers(), one.workspace, calls);
  };
  for (Timed& one : all) one.expected_us = time_us(one, 1);
  const RoundsRule rule{
      .rounds = 1000, .least = 3, .budget_us = seconds * 1e6 * static_cast<double>(all.size())};
  return time_in_rounds(all.size(), rule, [&](std::size_t i) {
    const double calls = calls_of_batch(device.batch_us(), all[i].expected_us);
    return std::optional(time_us(all[i], static_cast<int>(calls)));
  });
}

Times time_candidates(Candidates& candidates, GemmOperands& operands, double seconds) {
  std::vector<Timed> all;
  for (const auto& one : candidates) all.push_back({one->launch.get(), one->workspace->data()});
  std::vector<std::unique_ptr<CopiesLaunch>> copies(candidates.size());  // null where it makes none
  std::vector<std::size_t> places(candidates.size());                    // of the copies, in all
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (!candidates[i]->padded()) continue;
    copies[i] = std::make_unique<CopiesLaunch>(dynamic_cast<PaddedLaunch&>(*candidates[i]->launch));
    places[i] = all.size();
    all.push_back({copies[i].get(), candidates[i]->workspace->data()});
  }
  const auto timed = samples_us(all, operands, seconds);
  Times times;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    times.run_us.push_back(timed[i]);
    times.copies_us.push_back(copies[i] ? timed[places[i]].median : Choice::unknown);
  }
  return times;
}

/// Rows of one problem, or of a list of them.
class Report {
 public:
  void add(const Problem& problem, const Candidates& candidates, const Times& times) {
    const double baseline = times.run_us.back().median;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const ReadyConfig& one = *candidates[i];
      const Problem as_run = one.as_run(problem);
      const SampleSummary& time = times.run_us[i];
      const double speedup = candidates.size() > 1 ? baseline / time.median : Choice::unknown;
      rows_.push_back({text(print(problem)), text(Selector::name(as_run, one.choice)), text(one.source),
                       text(one.verified.error <= 1 ? "ok" : "wrong"), number(time.median, 5),
                       number(100 * time.spread, 2), number(static_cast<std::int64_t>(time.count)),
                       number(flop_count(problem) / time.median / 1e3, 5), number(speedup, 3),
                       number(one.choice.time_us, 5), text(one.backend->name()), flag(one.padded()),
                       text(as_run == problem ? "as asked" : print(as_run)), number(times.copies_us[i], 4),
                       text("")});
      as_asked_ = as_asked_ && !one.padded() && as_run == problem;
      one_backend_ = one_backend_ && one.backend == candidates.front()->backend;
    }
    if (candidates.size() > 1) log_speedups_.push_back(std::log(baseline / times.run_us.front().median));
  }
  void add_unserved(const Problem& problem, std::string_view reason, Format format) {
    ++unserved_;
    if (format == Format::text) return fmt::print("{}\nnot run: {}\n", print(problem), reason);
    std::vector<Cell> cells(kColumns.size(), number(Choice::unknown));
    cells.front() = text(print(problem));
    cells.back() = text(reason);
    rows_.push_back(std::move(cells));
  }
  std::size_t unserved() const noexcept { return unserved_; }
  /// Geometric mean over the problems, of the first config over the last; NaN when there is one config.
  double mean_speedup() const {
    double sum = 0;
    for (const double one : log_speedups_) sum += one;
    return log_speedups_.empty() ? Choice::unknown
                                 : std::exp(sum / static_cast<double>(log_speedups_.size()));
  }

  /// People see the columns that tell something; programs all of them. Forgets the rows.
  void print_rows(Format format) {
    std::vector<std::size_t> columns;
    for (std::size_t c = 0; c < kColumns.size(); ++c) {
      const std::string_view name = kColumns[c];
      const bool of_form = name == "padded" || name == "as_run" || name == "copies_us";
      const bool idle = name == "problem" || name == "reason" || (name == "backend" && one_backend_) ||
                        (of_form && as_asked_);
      if (format != Format::text || !idle) columns.push_back(c);
    }
    std::vector<std::string> names;
    for (const std::size_t c : columns) names.emplace_back(kColumns[c]);
    Table table(std::move(names));
    for (const auto& row : rows_) {
      std::vector<Cell> cells;
      for (const std::size_t c : columns) cells.push_back(row[c]);
      table.add_row(std::move(cells));
    }
    table.print(format);
    rows_.clear();
    as_asked_ = true;
    one_backend_ = true;
  }

 private:
  static constexpr std::array<std::string_view, 15> kColumns = {
      "problem", "config",       "chosen_by", "verified", "time_us", "spread_percent", "repeats", "gflops",
      "speedup", "predicted_us", "backend",   "padded",   "as_run",  "copies_us",      "reason"};
  std::vector<std::vector<Cell>> rows_;
  std::vector<double> log_speedups_;
  std::size_t unserved_ = 0;
  bool as_asked_ = true, one_backend_ = true;
};

/// Verifies and times the candidates of one problem; false when a result is wrong.
bool run_problem(const RunOptions& options, const Problem& problem, Solver& solver, Report& report) {
  Candidates candidates = candidates_of(options, problem, solver);
  GemmOperands operands(device_of(candidates));
  operands.make(problem, 1);
  const auto reference = make_reference(problem, operands);
  for (const auto& one : candidates) verify(*one, operands, *reference);
  report.add(problem, candidates, time_candidates(candidates, operands, options.seconds));
  bool all_right = true;
  for (const auto& one : candidates) {
    if (one->verified.error <= 1) continue;
    all_right = false;
    fmt::print(stderr, "kscout: {} gives wrong results on {}: {}\n",
               Selector::name(one->as_run(problem), one->choice), print(problem), one->verified.where);
  }
  if (options.format == Format::text) {
    fmt::print("{} on {}\n", print(problem), candidates.front()->backend->device().name);
    report.print_rows(Format::text);
    std::fflush(stdout);  // of a list, each problem's results at once
  }
  return all_right;
}

void run_verb(const RunOptions& options) {
  const bool list = !options.file.empty();
  if (list && options.problem.given())
    fail(Errc::invalid_argument, "give one problem, or a list with --problems FILE, not both");
  const auto problems = list ? any_problems_of(options.file) : std::vector{options.problem.any_problem()};
  const Registry registry = registry_of(options);
  Solver solver = solver_of(options, signature_of(problems.front()), registry);
  Report report;
  bool all_right = true;
  for (std::size_t i = 0; i < problems.size(); ++i) {
    if (i > 0 && options.format == Format::text) fmt::print("\n");
    try {
      all_right = run_problem(options, problems[i], solver, report) && all_right;
    } catch (const Error& error) {
      if (!list || error.code() != Errc::unsupported) throw;
      report.add_unserved(problems[i], error.what(), options.format);
    }
  }
  if (options.format != Format::text) {
    report.print_rows(options.format);
  } else if (list && report.mean_speedup() == report.mean_speedup()) {
    fmt::print("\nspeedup of the first config over the last: {:.3g}, geometric mean over {} problems\n",
               report.mean_speedup(), problems.size() - report.unserved());
  }
  if (!all_right) throw CheckFailed{};
  if (report.unserved() > 0)
    fail(Errc::unsupported, "nothing can run {} of {} problems", report.unserved(), problems.size());
}

}  // namespace

void setup_run(CLI::App& verb) {
  const auto options = std::make_shared<RunOptions>();
  options->problem.add_to(verb);
  verb.add_option("--problems", options->file,
                  "file of problems, run one after the other: lines gemm:MxNxK[:dtype][:layout]..., or CSV");
  verb.add_option(
      "--config", options->configs,
      "run this config instead of the selector's, unpadded; repeat to compare with the last ('auto': "
      "the selector's choice, 'default': the rule set's default config)");
  verb.add_option("--backend", options->backend,
                  "what executes: cpu, cuda or a kernel library's name (default: any that can, but cuda)");
  options->libraries.add_to(verb);
  verb.add_option("--model", options->model,
                  "model folder or .ksf file (default: the first on the search path)");
  verb.add_option("--rules", options->policy.rules, "rule set to choose from when there is no model")
      ->capture_default_str();
  add_word_option(verb, "--fallback", options->policy.fallback,
                  "who answers when there is no model: analytic costs, or every config measured once");
  verb.add_option("--db", options->policy.db,
                  "file of decisions: what a search found is kept there, and answers the next time");
  verb.add_option("--seconds", options->seconds, "time to measure each config")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 3600.0));
  add_format_option(verb, options->format);
  verb.footer(
      "Selects (model, else analytic cost or a search, else the default config; column chosen_by tells),\n"
      "executes, verifies against float64 and times. Column speedup compares with the last --config;\n"
      "spread_percent is the median deviation from the median of the repeats.\n"
      "A problem that no kernel takes directly is padded: then as_run tells the sizes that the kernel saw "
      "and\n"
      "copies_us what the copies cost (part of time_us).\n"
      "Exit 1 when a result is wrong, 3 when nothing can run the problem, 4 when a kernel library fails.\n\n"
      "Examples:\n  kscout run gemm:16x4096x4096:fp32:rcr\n"
      "  kscout run --m 512 --n 512 --k 512 --layout rrr --config auto --config CONFIG\n"
      "  kscout run --problems shapes.txt --config auto --config default --format csv\n"
      "  kscout run gemm:30x50x70 --library kernels/toy.kscout-library.json --backend toy\n"
      "  kscout run gemm:256x256x256 --fallback exhaustive\n"
      "  kscout run gemm:16x4096x4096:bf16 --backend cuda --model models/gemm_bf16_h200");
  verb.callback([options] { run_verb(*options); });
}

}  // namespace kscout::cli
