/// \file
/// `kscout run`: one problem through the dispatcher, verified and timed.
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <kscout/dispatcher.h>
#include <kscout/provider.h>

#include "core/fail.h"
#include "measure/clock.h"
#include "measure/operands.h"
#include "measure/stopping.h"
#include "measure/verify.h"
#include "options.h"
#include "table.h"
#include "verbs.h"

namespace kscout::cli {

namespace {

struct RunOptions {
  ProblemOptions problem;
  std::vector<std::string> configs;
  std::string backend = "cpu", model, rules = "default";
  double seconds = 0.3;
  Format format = Format::text;
};

/// The config that the rule set names for when nothing better is known.
Choice default_choice(const RunOptions& options, const GemmProblem& problem, const Device& device) {
  const Family family =
      enumerate({.signature = signature_of(problem), .device = device, .rules = options.rules, .filter = {}});
  Choice choice;
  choice.config = family.configs[family.default_config];
  return choice;
}

/// A config to run and who chose it.
struct Candidate {
  std::string source;
  Choice choice;
};

/// The selector's choice, then the configs named on the command line.
std::vector<Candidate> candidates_of(const RunOptions& options, const GemmProblem& problem,
                                     Backend& backend) {
  std::vector<Candidate> candidates;
  Dispatcher dispatcher(selector_for(options.model, signature_of(problem),
                                     {.device = backend.device(), .rules = options.rules}),
                        backend);
  if (options.configs.empty()) {
    const Choice choice = dispatcher.get_solution(problem).choice;
    return {{std::string(word(choice.source)), choice}};
  }
  for (const auto& name : options.configs) {
    Choice choice;
    if (name == "auto") {
      choice = dispatcher.get_solution(problem).choice;
      candidates.push_back({std::string(word(choice.source)), choice});
      continue;
    }
    if (name == "default") {
      candidates.push_back({"default", default_choice(options, problem, backend.device())});
      continue;
    }
    choice.config = named_config(name, problem);
    candidates.push_back({"named", choice});
  }
  return candidates;
}

/// Times launches in turn (A B C A B C ...), so that a drifting clock favours none. Microseconds, medians.
std::vector<double> interleaved_medians(std::vector<std::unique_ptr<Launch>>& launches,
                                        const GemmBuffers& buffers, std::vector<void*>& workspaces,
                                        double seconds) {
  constexpr std::size_t kLeastRounds = 5, kMostRounds = 1000;
  std::vector<std::vector<double>> samples(launches.size());
  const auto deadline =
      now_ns() + static_cast<std::int64_t>(seconds * 1e9 * static_cast<double>(launches.size()));
  for (std::size_t round = 0; round < kMostRounds && (round < kLeastRounds || now_ns() < deadline); ++round) {
    for (std::size_t i = 0; i < launches.size(); ++i) {
      const auto begin = now_ns();
      launches[i]->run(buffers, workspaces[i]);
      samples[i].push_back(static_cast<double>(now_ns() - begin) / 1e3);
    }
  }
  std::vector<double> medians;
  for (const auto& s : samples) medians.push_back(summarise(s).median);
  return medians;
}

void run_verb(const RunOptions& options) {
  const GemmProblem problem = options.problem.problem();
  Backend& backend = kscout::backend(options.backend);
  const auto candidates = candidates_of(options, problem, backend);

  GemmOperands operands;
  operands.make(problem, 1);
  const GemmReference reference(problem, operands);
  std::vector<std::unique_ptr<Launch>> launches;
  std::vector<std::unique_ptr<GuardedBuffer>> memory;
  std::vector<void*> workspaces;
  std::vector<Verification> verified;
  for (const auto& candidate : candidates) {
    launches.push_back(backend.prepare(problem, candidate.choice.config));
    memory.push_back(std::make_unique<GuardedBuffer>());
    memory.back()->resize(launches.back()->workspace_bytes());
    workspaces.push_back(memory.back()->data());
    operands.reset_c();
    launches.back()->run(operands.buffers(), workspaces.back());
    verified.push_back(reference.check(operands.c()));
    for (const std::string& damage : {operands.damage(), memory.back()->damage()}) {
      if (damage.empty()) continue;
      verified.back() = {std::numeric_limits<double>::infinity(), damage};
    }
  }
  const auto times_us = interleaved_medians(launches, operands.buffers(), workspaces, options.seconds);

  Table table({"config", "chosen_by", "verified", "time_us", "gflops", "predicted_us"});
  bool all_right = true;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const bool right = verified[i].error <= 1;
    const std::string name = Selector::name(problem, candidates[i].choice);
    all_right = all_right && right;
    table.add_row({text(name), text(candidates[i].source), text(right ? "ok" : "wrong"),
                   number(times_us[i], 5), number(flop_count(problem) / times_us[i] / 1e3, 5),
                   number(candidates[i].choice.time_us, 5)});
    if (!right) {
      fmt::print(stderr, "kscout: {} gives wrong results on {}: {}\n", name, print(problem),
                 verified[i].where);
    }
  }
  if (options.format == Format::text) fmt::print("{} on {}\n", print(problem), backend.device().name);
  table.print(options.format);
  if (!all_right) throw CheckFailed{};
}

}  // namespace

void setup_run(CLI::App& verb) {
  const auto options = std::make_shared<RunOptions>();
  options->problem.add_to(verb);
  verb.add_option("--config", options->configs,
                  "run this config instead of the selector's; repeat to compare ('auto': the selector's "
                  "choice, 'default': the rule set's default config)");
  verb.add_option("--backend", options->backend, "what executes")->capture_default_str();
  verb.add_option("--model", options->model,
                  "model folder or .ksf file (default: the first on the search path)");
  verb.add_option("--rules", options->rules, "rule set to choose from when there is no model")
      ->capture_default_str();
  verb.add_option("--seconds", options->seconds, "time to measure each config")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 3600.0));
  add_format_option(verb, options->format);
  verb.footer(
      "Selects (model, else analytic cost, else the default config; column chosen_by tells), executes, "
      "verifies against\n"
      "float64 and times. Exit 1 when a result is wrong, 3 when nothing can run the problem.\n\n"
      "Examples:\n  kscout run gemm:16x4096x4096:fp32:rcr\n"
      "  kscout run --m 512 --n 512 --k 512 --layout rrr --config auto --config CONFIG");
  verb.callback([options] { run_verb(*options); });
}

}  // namespace kscout::cli
