/// \file
/// `kscout tune`: everything for this machine in one go. Sweeps a family within a time budget, trains a
/// model, installs it and evaluates it on held-out problems.
#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <kscout/selector.h>

#include "core/fail.h"
#include "dataset/dataset.h"
#include "dataset/operations.h"
#include "evaluate/evaluate_model.h"
#include "evaluate_report.h"
#include "features/schema.h"
#include "options.h"
#include "problems/problem_sets.h"
#include "progress_line.h"
#include "sweep/journal.h"
#include "sweep/sweep.h"
#include "train/train.h"
#include "verbs.h"
#include "watched_sweep.h"

namespace kscout::cli {

namespace {

namespace fs = std::filesystem;

/// Seconds, not minutes: more problems measured are worth more than each measured without noise.
constexpr Protocol kThrifty{.contenders = 24, .rounds = 10, .rounds_budget_us = 5e4};

struct TuneOptions {
  double budget_s = 120, held_out = 0.3, max_gflop = 0;
  std::string rules = "default", out, schema = "gemm";
  std::vector<std::string> layouts = {"rcr", "rrr"};
  std::vector<std::string> targets = {"relative", "tflops"};
  std::uint32_t folds = 4;
  std::uint64_t seed = 1;
  Format format = Format::text;
};

/// Largest problems that a budget can afford, so that it pays for a hundred problems or more: a config's run
/// on the largest takes about 1/2000 of a short budget.
struct Affordable {
  double gflop, bytes;
};
Affordable affordable(const TuneOptions& options) {
  const double minutes = options.budget_s / 60;
  const double gflop = options.max_gflop > 0 ? options.max_gflop : std::clamp(0.2 * minutes, 0.1, 20.0);
  return {gflop, std::clamp(24e6 * minutes, 16e6, 1e9)};
}

/// Random sizes and shapes of language models, as many as the budget could ever measure; the sweep takes them
/// in a seeded order and stops when the time is up.
std::vector<Problem> problems_to_measure(const TuneOptions& options) {
  std::vector<Layout> layouts;
  for (const auto& name : options.layouts) layouts.push_back(parse<Layout>(name));
  const Affordable largest = affordable(options);
  const auto count = static_cast<std::size_t>(std::clamp(options.budget_s * 4, 40.0, 4000.0));
  std::vector<Problem> problems;
  for (const char* set : {"random", "llm"}) {
    const bool random = std::string_view(set) == "random";
    const auto some = make_problem_set({.set = set,
                                        .layouts = layouts,
                                        .max_gflop = largest.gflop,
                                        .max_bytes = largest.bytes,
                                        .count = random ? count : count / 3,
                                        .seed = options.seed});
    problems.insert(problems.end(), some.begin(), some.end());
  }
  return merge_equal(problems);
}

SweepReport sweep_for(const TuneOptions& options, const fs::path& folder, const Device& device) {
  const SweepPlan plan = make_plan(problems_to_measure(options),
                                   {.rules = options.rules, .seed = options.seed}, device, kThrifty);
  fmt::print(stderr, "kscout tune: {} configs of rule set '{}', {} problems to draw from, {:.0f} s\n",
             plan.configs.size(), options.rules, plan.problems.size(), options.budget_s);
  return watched_sweep(plan, {.folder = folder, .worker = default_worker(), .budget_s = options.budget_s},
                       "tune");
}

TrainingResult train_on(const MeasurementTable& training, const TuneOptions& options) {
  TrainOptions train_options;
  train_options.folds = options.folds;
  train_options.targets.clear();
  for (const auto& name : options.targets) train_options.targets.push_back(parse<Target>(name));
  ProgressLine line("tune");
  const MeasurementTable tables[] = {training};
  return train(tables, families_of(tables, options.rules),
               std::make_shared<Schema>(Schema::find(options.schema)), train_options,
               [&line](const std::string& text) { line(text); });
}

/// A word of a command line that a shell takes as it is.
std::string shell_word(const std::string& text) {
  const auto plain = [](unsigned char c) { return std::isalnum(c) || std::strchr("/._-+=:,@", c); };
  if (!text.empty() && std::ranges::all_of(text, plain)) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + '\'';
}

/// The model beside what it must beat.
Table results_table(const ModelEvaluation& evaluation) {
  Table table({"% of the fastest measured config", "mean", "p10", "worst"});
  const auto add = [&](std::string_view who, const Summary& s) {
    const auto percent = [](double share) { return Cell{fmt::format("{:.1f}", 100 * share), false}; };
    table.add_row({text(who), percent(s.mean), percent(s.p10), percent(s.min)});
  };
  add("model", evaluation.evaluation.overall);
  for (const Baseline& baseline : evaluation.baselines) {
    if (baseline.name == "best static") add("best fixed config", baseline.summary);
    if (baseline.name == "analytic model") add(baseline.name, baseline.summary);
  }
  return table;
}

/// What people read: a dozen lines, the last of them the command that prints the rest.
void print_summary(const TuneOptions& options, const SweepReport& report, const MeasurementTable& measured,
                   const TableParts& parts, const ModelEvaluation& evaluation) {
  const std::size_t training = parts.training.problems.size(), held_out = parts.held_out.problems.size();
  fmt::print("measured   {} problems, {} configs of rule set '{}', {} rows in {:.0f} s{}, on {}\n",
             training + held_out, measured.configs.size(), options.rules, measured.rows.size(),
             report.progress.elapsed_s, report.progress.rows < measured.rows.size() ? " and before" : "",
             measured.device.name);
  fmt::print("trained    on {} problems (target {}), evaluated on {} held-out problems\n\n", training,
             evaluation.target, held_out);
  results_table(evaluation).print(Format::text);
  fmt::print("\ninstalled  {}{}\n", evaluation.model,
             options.out.empty() ? "" : " (name it to run and predict with --model)");
  fmt::print("evaluate   {} evaluate --model {}\n", shell_word(program_invocation_name),
             shell_word(evaluation.model));
}

void tune_verb(const TuneOptions& options) {
  const Device device = detect_cpu();
  const fs::path model_folder = options.out.empty()
                                    ? user_model_folder() / model_folder_name(Op::gemm, DType::fp32, device)
                                    : fs::path(options.out);
  const fs::path sweep_folder = fs::path(model_folder).concat(".sweep");

  const SweepReport report = sweep_for(options, sweep_folder, device);
  if (report.ended == "interrupted") {
    fmt::print(stderr, "kscout tune: what was measured is kept in {}; the same command goes on\n",
               sweep_folder.string());
    end_by_signal();
  }
  const MeasurementTable measured = read_sweep(sweep_folder);

  const TableParts parts = split_table(measured, options.held_out, options.seed);
  const TrainingResult trained = train_on(parts.training, options);
  write_model_folder(model_folder, trained,
                     {.data_files = {std::string(kKeptMeasurements)},
                      .metadata = measured.metadata,
                      .data_rows = parts.training.rows.size()});
  write_dataset(model_folder / kKeptMeasurements, measured);
  fs::remove_all(sweep_folder);

  ModelEvaluationOptions how;
  how.training = parts.training;
  const ModelEvaluation evaluation = evaluate_model(model_folder, parts.held_out, how);
  if (options.format != Format::text) return print_evaluation(evaluation, options.format);
  print_summary(options, report, measured, parts, evaluation);
}

}  // namespace

void setup_tune(CLI::App& verb) {
  const auto options = std::make_shared<TuneOptions>();
  verb.add_option("--budget", options->budget_s, "seconds to measure; training and evaluation come on top")
      ->capture_default_str()
      ->check(CLI::Range(1.0, 1e6));
  verb.add_option("--rules", options->rules, "rule set to choose from")->capture_default_str();
  check_words<Layout>(verb.add_option("--layout", options->layouts, "layouts to measure, comma-separated")
                          ->delimiter(',')
                          ->default_str("rcr,rrr"));
  check_words<Target>(
      verb.add_option("--targets", options->targets,
                      "what to learn: tflops|latency|bandwidth|relative|rank, comma-separated")
          ->delimiter(',')
          ->default_str("relative,tflops"));
  verb.add_option("--folds", options->folds, "cross-validation folds over problem sizes")
      ->capture_default_str();
  verb.add_option("--held-out", options->held_out, "share of the sizes kept for the evaluation")
      ->capture_default_str()
      ->check(CLI::Range(0.05, 0.9));
  verb.add_option("--max-gflop", options->max_gflop, "leave larger problems out; 0 = what the budget affords")
      ->capture_default_str();
  verb.add_option("--schema", options->schema, "feature schema")->capture_default_str();
  verb.add_option("--seed", options->seed, "of problems, their order and the split")->capture_default_str();
  verb.add_option("--out", options->out,
                  "model folder (default: the user's models, where run and predict look)");
  add_format_option(verb, options->format, false);
  verb.footer(
      "Ctrl-C keeps what was measured; the same command goes on. The model is installed where run and "
      "predict find it.\nThe measurements stay in its folder, so that kscout evaluate --model FOLDER prints "
      "the full evaluation.\n\n"
      "Example:\n  kscout tune --budget 60");
  verb.callback([options] { tune_verb(*options); });
}

}  // namespace kscout::cli
