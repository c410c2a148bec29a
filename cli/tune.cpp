/// \file
/// Implements `kscout tune`, which does all steps for this machine. For each operation: sweeps a family
/// within its share of the time budget, trains a model on all measurements so far, evaluates it on held-out
/// problems, and installs it where it is not worse than the previous model.
#include "tune/tune.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <kscout/provider.h>

#include "core/fail.h"
#include "core/names.h"
#include "op/operation.h"
#include "options.h"
#include "progress_line.h"
#include "sweep_with_progress.h"
#include "tune_report.h"
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

struct TuneOptions {
  TuneRequest request;
  std::vector<std::string> ops = {"gemm"}, layouts = {}, targets = {}, problems = {};
  Format format = Format::text;
};

/// The operations in the order of the command, each once; `all` stands for every one.
std::vector<Op> ops_of(const std::vector<std::string>& words) {
  if (std::ranges::find(words, kAllOps) != words.end()) {
    const auto all = provider("native").ops();
    return {all.begin(), all.end()};
  }
  std::vector<Op> ops;
  for (const std::string& name : words) {
    const Op op = parse<Op>(name);
    if (std::ranges::find(ops, op) == ops.end()) ops.push_back(op);
  }
  return ops;
}

template <WordEnum E>
std::vector<E> parse_all(const std::vector<std::string>& words) {
  std::vector<E> values;
  for (const std::string& one : words) values.push_back(parse<E>(one));
  return values;
}

[[noreturn]] void end_stopped(const TuneStopped& stopped) {
  fmt::print(stderr,
             "\n"
             "kscout tune: what was measured is kept in {}; the next kscout tune continues from it, with any "
             "options but another --rules\n",
             stopped.kept.string());
  end_by_signal();
  std::abort();  // the signal that ends this process has just been raised
}

/// The problems of --problems, of all operations; without --op those operations are tuned that have some.
void add_problems(TuneOptions& options, bool ops_given) {
  TuneRequest& request = options.request;
  request.problems = all_problems_of(options.problems, request.dtype, {});
  std::vector<Op> ops;
  std::size_t others = 0;
  const std::span<const Op> tuned = ops_given ? std::span<const Op>(request.ops) : provider("native").ops();
  for (const Problem& problem : request.problems) {
    if (std::ranges::find(tuned, problem.op()) == tuned.end() ||
        signature_of(problem).dtype_a != request.dtype) {
      ++others;
    } else if (std::ranges::find(ops, problem.op()) == ops.end()) {
      ops.push_back(problem.op());
    }
  }
  if (!ops_given && !ops.empty()) request.ops = ops;
  if (others > 0)
    fmt::print(
        stderr,
        "kscout tune: {} of {} problems are left out: of operations or types that this tune is not for\n",
        others, request.problems.size());
}

void tune_verb(TuneOptions options, bool ops_given) {
  TuneRequest& request = options.request;
  request.ops = ops_of(options.ops);
  if (!options.problems.empty()) add_problems(options, ops_given);
  request.layouts = parse_all<Layout>(options.layouts);
  request.targets = parse_all<Target>(options.targets);
  std::optional<ProgressLine> training;
  std::string json;
  TuneProgress progress{.stop = &signal_came()};
  progress.note = [&](const std::string& text) {
    training.reset();
    fmt::print(stderr, "kscout tune: {}\n", text);
  };
  progress.sweep = [](const SweepPlan& plan, const SweepOptions& sweep) {
    return sweep_with_progress(plan, sweep, "tune");
  };
  progress.training = [&](const std::string& text) {
    if (!training) training.emplace("tune");
    (*training)(text);
  };
  // Reports an operation as soon as it is done, so that a later one cannot lose it.
  progress.done = [&](const TunedOp& done) {
    training.reset();
    const std::filesystem::path report = write_tune_report(done);
    json += (json.empty() ? "" : ",\n") + tuned_json(done, report);
    if (options.format == Format::text) {
      if (done.op != request.ops.front()) fmt::print("\n");
      print_tuned(done, request, report);
      std::fflush(stdout);
    }
    warn_of_load(done);
  };
  try {
    const TuneResult result = tune(request, progress);
    const bool one = request.ops.size() == 1;
    if (options.format == Format::json) fmt::print("{}\n", one ? json : "[" + json + "]");
    if (!result.failed.empty()) {
      std::vector<std::string_view> failed;
      for (const Op op : result.failed) failed.push_back(word(op));
      fail(result.code, "not tuned: {}", fmt::join(failed, ", "));
    }
  } catch (const TuneStopped& stopped) {
    end_stopped(stopped);
  }
  if (!ops_given && options.problems.empty() && !request.on_gpu())
    fmt::print(stderr, "kscout tune: only {} was tuned; --op names other operations ({})\n",
               word(request.ops.front()), fmt::join(op_words(), ", "));
}

}  // namespace

void setup_tune(CLI::App& verb) {
  const auto options = std::make_shared<TuneOptions>();
  TuneRequest& request = options->request;
  CLI::Option* const op =
      check_text(verb.add_option("--op", options->ops,
                                 "operations to tune, comma-separated, or all: gemm|conv_fwd|conv_bwd_data|"
                                 "conv_bwd_weight|all; they share the budget")
                     ->delimiter(',')
                     ->default_str("gemm"),
                 [](const std::string& text) { index_of_word("operation", text, op_words()); });
  offer_words(op, op_words());
  CLI::Option* const backend =
      verb.add_option("--backend", request.backend, "where to measure: cpu, or cuda for an NVIDIA GPU")
          ->capture_default_str();
  offer_words(backend, backend_names());
  add_word_option(verb, "--dtype", request.dtype, "element type of A and B; on a CPU fp32");
  verb.add_option("--budget", request.budget_s,
                  "seconds to measure, more where less gives no model; training and evaluation come on top")
      ->capture_default_str()
      ->check(CLI::Range(1.0, 1e6));
  verb.add_option("--rules", request.rules, "rule set to choose from")
      ->default_str("default; on a GPU what the library lists for each problem");
  check_words<Layout>(verb.add_option("--layout", options->layouts, "layouts to measure, comma-separated")
                          ->delimiter(',')
                          ->default_str("all that CPU kernels take without copies; of GEMMs on a GPU rcr"));
  check_words<Target>(
      verb.add_option("--targets", options->targets,
                      "what to learn: tflops|latency|bandwidth|relative|rank, comma-separated")
          ->delimiter(',')
          ->default_str("rank, on a CPU added to the model for any CPU; without one relative,tflops"));
  verb.add_option("--folds", request.folds,
                  "cross-validation folds over problem sizes; over filters for convolutions")
      ->capture_default_str()
      ->check(CLI::Range(2, 20));
  verb.add_option(
          "--held-out", request.held_out,
          "share of the sizes (of the filters for convolutions) held out for the evaluation; a smaller "
          "share than before releases some to training")
      ->capture_default_str()
      ->check(CLI::Range(0.05, 0.9));
  verb.add_option(
      "--problems", options->problems,
      "your problems, sets or files (kscout problems --from-log): measured first; the model is evaluated "
      "on them, weighted by calls");
  add_text_option(verb, "--against",
                  "what your program uses today, for --problems: default|openblas|onednn|cublaslt|cudnn",
                  "default: the rule set's default config; on a GPU cublaslt, cudnn for convolutions",
                  [options](const std::string& text) { options->request.against = parse<Against>(text); });
  verb.add_option(
          "--max-load", request.max_load,
          "share of the CPUs that other processes may keep busy: beyond it tune warns, and refuses to "
          "compare with openblas and onednn; 1 = any")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0));
  verb.add_option("--max-gflop", request.max_gflop, "leave larger problems out; 0 = what the budget affords")
      ->capture_default_str();
  verb.add_option(
          "--max-problems", request.max_problems,
          "end after this many new problems of each operation, chosen by the seed; 0 = what the budget "
          "affords")
      ->capture_default_str();
  verb.add_option("--schema", request.schema,
                  "feature schema, or FILE.toml with one of your own, of every operation")
      ->default_str("gemm, on a GPU gemm_gpu; conv_cpu for convolutions, on a GPU conv_nvidia");
  verb.add_option("--seed", request.seed, "seed of problems and their order")->capture_default_str();
  verb.add_flag("--replace", request.replace, "install the new model even if it is worse");
  verb.add_flag("--restart", request.restart,
                "remove what was measured since a model was last installed; without it, every tune continues "
                "from there");
  verb.add_option("--out", request.out,
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
      "  kscout tune --op gemm,conv_fwd --budget 600\n"
      "  kscout tune --problems shapes.txt --against openblas --budget 600\n"
      "  kscout tune --backend cuda --dtype bf16 --budget 600\n"
      "  kscout tune --backend cuda --dtype bf16 --op conv_fwd,conv_bwd_data,conv_bwd_weight --budget 1500");
  verb.callback([options, op] { tune_verb(*options, op->count() > 0); });
}

}  // namespace kscout::cli
