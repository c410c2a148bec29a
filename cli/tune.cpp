/// \file
/// Implements `kscout tune`, which does all steps for this machine. For each operation: sweeps a family
/// within its share of the time budget, trains a model on all measurements so far, evaluates it on held-out
/// problems, and installs it where it is not worse than the previous model.
#include "tune.h"

#include <algorithm>
#include <cstdio>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <kscout/provider.h>

#include "core/fail.h"
#include "core/names.h"
#include "op/operation.h"
#include "sibling.h"
#include "verbs.h"

namespace kscout::cli {

namespace {

constexpr std::string_view kAllOps = "all";

/// The words of --op.
std::vector<std::string_view> op_words() {
  std::vector<std::string_view> words;
  for (const Op op : provider("native").ops()) words.push_back(word(op));
  words.push_back(kAllOps);
  return words;
}

bool has_layout(Op op, Layout layout) {
  const auto layouts = operation(op).tuned_layouts;
  return std::ranges::find(layouts, layout) != layouts.end();
}

/// The layouts of an operation, for messages.
std::string layouts_text(Op op) {
  std::vector<std::string_view> words;
  for (const Layout layout : operation(op).tuned_layouts) words.push_back(word(layout));
  return fmt::format("{}", fmt::join(words, ", "));
}

void check_tune_arguments(const TuneOptions& options) {
  const std::vector<Op> ops = options.ops();
  if (!(options.budget_s >= static_cast<double>(ops.size())))
    fail(Errc::invalid_argument, "--budget {}: seconds, 1 or more for each of {} operation{}",
         options.budget_s, ops.size(), ops.size() == 1 ? "" : "s");
  if (!(options.max_gflop >= 0)) fail(Errc::invalid_argument, "--max-gflop {}: 0 or more", options.max_gflop);
  if (!(options.held_out >= 0.05))
    fail(Errc::invalid_argument, "--held-out {}: a share of 0.05 to 0.9", options.held_out);
  for (const std::string& name : options.layouts) {
    const auto layout = parse<Layout>(name);
    if (std::ranges::any_of(ops, [&](Op op) { return has_layout(op, layout); })) continue;
    std::string known;
    for (const Op op : ops)
      known += fmt::format("{}{}: {}", known.empty() ? "" : "; ", word(op), layouts_text(op));
    fail(Errc::invalid_argument, "--layout {}: no operation to tune has it ({})", name, known);
  }
}

/// Reports an operation as soon as it is done, so that a later one cannot lose it.
void report_now(const TunedOp& done, const TuneOptions& options, bool first) {
  if (options.format != Format::text) return;
  if (!first) fmt::print("\n");
  print_tuned(done, options);
  std::fflush(stdout);
}

void tune_verb(const TuneOptions& options, bool ops_given) {
  check_tune_arguments(options);
  const std::vector<Op> ops = options.ops();
  const Device device = detect_cpu();
  default_worker();
  // All operations are checked, and their folders locked, before the first one is measured.
  std::vector<std::unique_ptr<OpTune>> tunes;
  for (const Op op : ops) {
    tunes.push_back(
        std::make_unique<OpTune>(op, options, device, options.budget_s / static_cast<double>(ops.size())));
  }
  double left_s = options.budget_s;
  std::string failed;
  Errc code{};
  auto json = std::string();
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const double share_s = std::max(left_s / static_cast<double>(ops.size() - i), 1.0);
    try {
      const TunedOp done = tunes[i]->run(share_s);
      left_s -= done.report.progress.elapsed_s;
      report_now(done, options, i == 0);
      json += (json.empty() ? "" : ",\n") + tuned_json(done);
    } catch (const Error& error) {
      if (ops.size() == 1) throw;
      fmt::print(stderr, "kscout tune: {}: {}\n", word(ops[i]), error.what());
      if (failed.empty()) code = error.code();
      failed += fmt::format("{}{}", failed.empty() ? "" : ", ", word(ops[i]));
      left_s -= share_s;
    }
    tunes[i].reset();  // unlocks the folder
  }
  if (options.format == Format::json) fmt::print("{}\n", ops.size() == 1 ? json : "[" + json + "]");
  if (!failed.empty()) fail(code, "not tuned: {}", failed);
  if (!ops_given)
    fmt::print(stderr, "kscout tune: only {} was tuned; --op names other operations ({})\n",
               word(ops.front()), fmt::join(op_words(), ", "));
}

}  // namespace

std::vector<Op> TuneOptions::ops() const {
  std::vector<Op> all(provider("native").ops().begin(), provider("native").ops().end());
  if (std::ranges::find(op_names, kAllOps) != op_names.end()) return all;
  std::vector<Op> named;
  for (const std::string& name : op_names) {
    const Op op = parse<Op>(name);
    if (std::ranges::find(named, op) == named.end()) named.push_back(op);
  }
  return named;
}

std::set<Layout> TuneOptions::layouts_of(Op op) const {
  std::set<Layout> named;
  for (const std::string& name : layouts) {
    if (const auto layout = parse<Layout>(name); has_layout(op, layout)) named.insert(layout);
  }
  if (!named.empty()) return named;
  const auto usual = operation(op).tuned_layouts.first(operation(op).usual_layouts);
  return {usual.begin(), usual.end()};
}

void setup_tune(CLI::App& verb) {
  const auto options = std::make_shared<TuneOptions>();
  CLI::Option* const op =
      check_text(verb.add_option("--op", options->op_names,
                                 "operations to tune, comma-separated, or all: gemm|conv_fwd|conv_bwd_data|"
                                 "conv_bwd_weight|all; they share the budget")
                     ->delimiter(',')
                     ->default_str("gemm"),
                 [](const std::string& text) { index_of_word("operation", text, op_words()); });
  offer_words(op, op_words());
  verb.add_option("--budget", options->budget_s,
                  "seconds to measure, up to ten times as many where less gives no model; training and "
                  "evaluation come on top")
      ->capture_default_str()
      ->check(CLI::Range(1.0, 1e6));
  verb.add_option("--rules", options->rules, "rule set to choose from")->capture_default_str();
  check_words<Layout>(verb.add_option("--layout", options->layouts, "layouts to measure, comma-separated")
                          ->delimiter(',')
                          ->default_str("rcr,rrr for gemm; nhwgc,ndhwgc for convolutions"));
  check_words<Target>(
      verb.add_option("--targets", options->targets,
                      "what to learn: tflops|latency|bandwidth|relative|rank, comma-separated")
          ->delimiter(',')
          ->default_str("rank, added to the model for any CPU; without one relative,tflops"));
  verb.add_option("--folds", options->folds,
                  "cross-validation folds over problem sizes; over filters for convolutions")
      ->capture_default_str()
      ->check(CLI::Range(2, 20));
  verb.add_option(
          "--held-out", options->held_out,
          "share of the sizes (of the filters for convolutions) held out for the evaluation; a smaller "
          "share than before releases some to training")
      ->capture_default_str()
      ->check(CLI::Range(0.05, 0.9));
  verb.add_option("--max-gflop", options->max_gflop, "leave larger problems out; 0 = what the budget affords")
      ->capture_default_str();
  verb.add_option(
          "--max-problems", options->max_problems,
          "end after this many new problems of each operation, chosen by the seed; 0 = what the budget "
          "affords")
      ->capture_default_str();
  verb.add_option("--schema", options->schema, "feature schema of every operation")
      ->default_str("gemm; conv_cpu for convolutions");
  verb.add_option("--seed", options->seed, "seed of problems and their order")->capture_default_str();
  verb.add_flag("--replace", options->replace, "install the new model even if it is worse");
  verb.add_flag("--restart", options->restart,
                "remove what was measured since a model was last installed; without it, every tune continues "
                "from there");
  verb.add_option("--out", options->out,
                  "model folder, with several operations the folder of their models (default: the user's "
                  "models, where run and predict look)");
  add_format_option(verb, options->format, false);
  verb.footer(
      "Measurements add up: a later tune measures other problems and trains on all. The new model is "
      "installed\n"
      "where run and predict find it, if it is at least as good as the model that is used there now, on "
      "problems\n"
      "that neither was trained on; the model before it is kept in the folder, under previous. Ctrl-C keeps "
      "what was\n"
      "measured. The measurements stay in the model's folder, so that kscout evaluate --model FOLDER prints "
      "the\n"
      "full evaluation.\n"
      "\n"
      "Examples:\n"
      "  kscout tune --budget 60\n"
      "  kscout tune --op gemm,conv_fwd --budget 600");
  verb.callback([options, op] { tune_verb(*options, op->count() > 0); });
}

}  // namespace kscout::cli
