/// \file
/// `kscout run`: one problem through the dispatcher, verified and timed.
#include <functional>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <kscout/dispatcher.h>
#include <kscout/provider.h>

#include "core/fail.h"
#include "dispatch/padding.h"
#include "dispatch/solver.h"
#include "measure/batch.h"
#include "measure/operands.h"
#include "measure/rounds.h"
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
  std::string backend, model;
  DispatchPolicy policy;
  double seconds = 0.3;
  Format format = Format::text;
};

/// The backends to choose from: all, or the one that was asked for.
Registry registry_of(const RunOptions& options) {
  Registry all = options.libraries.registry();
  if (options.backend.empty()) return all;
  all.backend(options.backend);  // throws for an unknown one
  Registry one;
  for (const auto& backend : all.backends()) {
    if (backend->name() == options.backend) one.add(backend);
  }
  return one;
}

Solver solver_of(const RunOptions& options, const Signature& signature, const Registry& registry) {
  check_rules("native", signature.op, options.policy.rules);
  if (options.model.empty()) return {registry, options.policy};
  return {Selector::load(options.model), registry, options.policy};
}

/// What somebody named, run as it is.
Solution explicit_solution(const Registry& registry, const GemmProblem& problem, const KernelConfig& config) {
  const Registry::Support support = registry.supports(problem, config);
  if (!support.backend) fail(Errc::unsupported, "{}: {}", print(problem), support.refusal);
  Solution solution;
  solution.choice.config = config;
  solution.backend = support.backend;
  solution.form = direct_form(problem);
  return solution;
}

/// The config that the rule set names for when nothing better is known.
KernelConfig default_config(const RunOptions& options, const Registry& registry, const Signature& signature) {
  const auto [backend, family] = registry.kernels(signature, options.policy.rules).front();
  return family.configs[family.default_config];
}

/// A config to run and who chose it, made ready.
struct ReadyConfig {
  std::string source;
  Solution solution;
  std::unique_ptr<Launch> launch;
  GuardedBuffer workspace;
  Verification verified;
};

/// The selector's choice, or what the command line names.
std::vector<std::unique_ptr<ReadyConfig>> candidates_of(const RunOptions& options, const GemmProblem& problem,
                                                        Solver& solver) {
  std::vector<std::unique_ptr<ReadyConfig>> candidates;
  const auto names = options.configs.empty() ? std::vector<std::string>{"auto"} : options.configs;
  for (const auto& name : names) {
    auto one = std::make_unique<ReadyConfig>();
    if (name == "auto") {
      one->solution = solver.solve(problem);
      one->source = std::string(word(one->solution.choice.source));
    } else {
      const KernelConfig config = name == "default"
                                      ? default_config(options, solver.registry(), signature_of(problem))
                                      : named_config(name, problem);
      one->solution = explicit_solution(solver.registry(), problem, config);
      one->source = name == "default" ? name : "named";
    }
    one->launch = name == "auto" ? solver.make_ready(problem, one->solution)
                                 : one->solution.backend->prepare(problem, one->solution.choice.config);
    candidates.push_back(std::move(one));
  }
  return candidates;
}

void verify(ReadyConfig& one, GemmOperands& operands, const GemmReference& reference) {
  one.workspace.resize(one.launch->workspace_bytes());
  operands.reset_c();
  one.launch->run(operands.buffers(), one.workspace.data());
  one.verified = reference.check(operands.c());
  for (const std::string& damage : {operands.damage(), one.workspace.damage()}) {
    if (!damage.empty()) one.verified = {std::numeric_limits<double>::infinity(), damage};
  }
}

/// Median microseconds of every candidate and of the copies that it makes (NaN when it makes none).
struct Times {
  std::vector<double> run_us, copies_us;
};

/// Something to time: a run of a launch, or its copies alone.
struct Timed {
  std::function<void()> call;
  double expected_us = 0;
};

/// Medians in turn: each gets about `seconds`.
std::vector<double> medians_us(const std::vector<Timed>& all, double seconds) {
  const RoundsRule rule{
      .rounds = 1000, .least = 3, .budget_us = seconds * 1e6 * static_cast<double>(all.size())};
  const auto timed = time_in_rounds(all.size(), rule, [&](std::size_t i) {
    return std::optional(batch_us(all[i].call, all[i].expected_us));
  });
  std::vector<double> medians;
  for (const SampleSummary& one : timed) medians.push_back(one.median);
  return medians;
}

Times time_candidates(std::vector<std::unique_ptr<ReadyConfig>>& candidates, GemmOperands& operands,
                      double seconds) {
  std::vector<Timed> all;
  for (const auto& candidate : candidates) {
    ReadyConfig& one = *candidate;
    const auto run = [&one, &operands] { one.launch->run(operands.buffers(), one.workspace.data()); };
    all.push_back({run, mean_us(run, 1)});
  }
  std::vector<std::size_t> copies;  // by candidate: their position, when it makes any
  for (const auto& candidate : candidates) {
    ReadyConfig& one = *candidate;
    copies.push_back(all.size());
    if (!one.solution.form.padded()) continue;
    auto& padded = dynamic_cast<PaddedLaunch&>(*one.launch);
    const auto run = [&one, &padded, &operands] {
      padded.run_copies(operands.buffers(), one.workspace.data());
    };
    all.push_back({run, mean_us(run, 1)});
  }
  const auto medians = medians_us(all, seconds);
  Times times;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const bool padded = candidates[i]->solution.form.padded();
    times.run_us.push_back(medians[i]);
    times.copies_us.push_back(padded ? medians[copies[i]] : Choice::unknown);
  }
  return times;
}

Table table_of(const GemmProblem& problem, const std::vector<std::unique_ptr<ReadyConfig>>& candidates,
               const Times& times) {
  Table table({"config", "chosen_by", "verified", "time_us", "gflops", "predicted_us", "backend", "padded",
               "as_run", "copies_us"});
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const ReadyConfig& one = *candidates[i];
    const Solution& solution = one.solution;
    const bool direct = solution.form.problem == problem;
    table.add_row({text(Selector::name(solution.form.problem, solution.choice)), text(one.source),
                   text(one.verified.error <= 1 ? "ok" : "wrong"), number(times.run_us[i], 5),
                   number(flop_count(problem) / times.run_us[i] / 1e3, 5), number(solution.choice.time_us, 5),
                   text(solution.backend->name()), flag(solution.form.padded()),
                   text(direct ? "as asked" : print(solution.form.problem)), number(times.copies_us[i], 4)});
  }
  return table;
}

void run_verb(const RunOptions& options) {
  const GemmProblem problem = options.problem.problem();
  const Registry registry = registry_of(options);
  Solver solver = solver_of(options, signature_of(problem), registry);
  auto candidates = candidates_of(options, problem, solver);

  GemmOperands operands;
  operands.make(problem, 1);
  const GemmReference reference(problem, operands);
  for (const auto& one : candidates) verify(*one, operands, reference);
  const Times times = time_candidates(candidates, operands, options.seconds);

  bool all_right = true;
  for (const auto& one : candidates) {
    if (one->verified.error <= 1) continue;
    all_right = false;
    fmt::print(stderr, "kscout: {} gives wrong results on {}: {}\n",
               Selector::name(one->solution.form.problem, one->solution.choice), print(problem),
               one->verified.where);
  }
  if (options.format == Format::text) {
    fmt::print("{} on {}\n", print(problem), candidates.front()->solution.backend->device().name);
  }
  table_of(problem, candidates, times).print(options.format);
  if (!all_right) throw CheckFailed{};
}

}  // namespace

void setup_run(CLI::App& verb) {
  const auto options = std::make_shared<RunOptions>();
  options->problem.add_to(verb);
  verb.add_option("--config", options->configs,
                  "run this config instead of the selector's, unpadded; repeat to compare ('auto': the "
                  "selector's choice, 'default': the rule set's default config)");
  verb.add_option("--backend", options->backend,
                  "what executes: cpu or a kernel library's name (default: any that can)");
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
      "executes, verifies against float64 and times. A problem that no kernel takes directly is padded: "
      "then\n"
      "as_run tells the sizes that the kernel saw and copies_us what the copies cost (part of time_us).\n"
      "Exit 1 when a result is wrong, 3 when nothing can run the problem, 4 when a kernel library fails.\n\n"
      "Examples:\n  kscout run gemm:16x4096x4096:fp32:rcr\n"
      "  kscout run --m 512 --n 512 --k 512 --layout rrr --config auto --config CONFIG\n"
      "  kscout run gemm:30x50x70 --library kernels/toy.kscout-library.json --backend toy\n"
      "  kscout run gemm:256x256x256 --fallback exhaustive");
  verb.callback([options] { run_verb(*options); });
}

}  // namespace kscout::cli
