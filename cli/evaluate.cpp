#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "core/fail.h"
#include "dataset/compact_table.h"
#include "evaluate/baselines.h"
#include "evaluate/reference_problems.h"
#include "evaluate_report.h"
#include "op/problem_sets.h"
#include "options.h"
#include "outputs.h"
#include "select/model.h"
#include "train/train.h"
#include "verbs.h"

namespace kscout::cli {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kShownWorst = 5;

/// Required minimum values, in percent.
struct Goals {
  double mean = 0, p10 = 0, worst = 0, top3 = 0;
};

struct EvaluateOptions {
  std::string model, out, predictions_out, target;
  std::vector<std::string> data, train_data, layouts;
  std::string problems;  ///< a file
  ModelEvaluationOptions how;
  Format format = Format::text;
  Goals least;
  bool check_confidence = false, store = false;
  std::optional<std::size_t> worst;
};

/// One line per missed goal.
std::vector<std::string> missed(const Goals& least, const Summary& s) {
  static_assert(kTop[1] == 3);
  struct Goal {
    const char* what;
    double reached, least;
  };
  std::vector<std::string> lines;
  for (const Goal& goal :
       {Goal{"mean", s.mean, least.mean}, Goal{"P10", s.p10, least.p10}, Goal{"worst", s.min, least.worst},
        Goal{"top-3 mean", s.top_mean[1], least.top3}}) {
    if (100 * goal.reached >= goal.least) continue;
    lines.push_back(
        fmt::format("{} {:.2f} percent, required: at least {}", goal.what, 100 * goal.reached, goal.least));
  }
  return lines;
}

Cell percent(double fraction) { return number(100 * fraction, 4); }

std::vector<Cell> summary_cells(std::string name, std::string value, const Summary& s) {
  return {text(name),
          text(value),
          number(static_cast<std::int64_t>(s.problems)),
          percent(s.mean),
          percent(s.p50),
          percent(s.p10),
          percent(s.min),
          percent(s.regret_mean),
          percent(s.regret_p95),
          percent(s.within_2),
          percent(s.within_5),
          percent(s.top_mean[1]),
          percent(s.hit_rate[0])};
}

Table summary_table(std::string first, std::string second) {
  return Table({std::move(first), std::move(second), "problems", "mean", "p50", "p10", "min", "regret", "p95",
                "within 2 %", "within 5 %", "top-3", "is oracle"});
}

void print_head(const ModelEvaluation& e) {
  fmt::print("model     {} (target {}, rules {})\ndevice    {}\npool      {}\n", e.model, e.target, e.rules,
             e.device,
             e.pool == Pool::measured   ? "measured configs of each problem"
             : e.pool == Pool::accepted ? "measured configs that the library accepts for the problem"
                                        : "whole family; an unmeasured pick counts as 0");
  if (e.picks_outside_family > 0)
    fmt::print("          {} picks are not in the model's family: a selector returns none of them\n",
               e.picks_outside_family);
  fmt::print("problems  {} of {}", e.evaluation.results.size(), e.problems_given);
  if (!e.training_known) {
    fmt::print("; the model does not tell which sizes it was trained on");
  } else if (e.in_sample) {
    fmt::print(", {} of them of sizes in the training set (--in-sample)", e.trained_on);
  } else {
    fmt::print("; {} of sizes in the training set left out", e.trained_on);
  }
  if (e.without_family) fmt::print("; {} that the model has no family for", e.without_family);
  if (e.evaluation.without_oracle) fmt::print("; {} without an ok row", e.evaluation.without_oracle);
  fmt::print(
      "\n\nefficiency in percent of the fastest measured config, over problems; regret: percent that the "
      "pick takes longer, mean and P95\n\n");
}

/// The picks beside the library's own choices, of each kind where there are several.
void print_against_library(const std::vector<AgainstSuggestion>& all) {
  const AgainstSuggestion& whole = all.front();
  fmt::print(
      "speed over the library's first suggestion, {} problems: geometric mean {:.3f}, P10 {:.3f}, worst "
      "{:.3f}; {} picks are that suggestion; the fastest config: {:.3f}\n",
      whole.problems, whole.first.geomean, whole.first.p10, whole.first.min, whole.same, whole.fastest);
  fmt::print(
      "speed over the fastest of its first eight: geometric mean {:.3f}, P10 {:.3f}, worst {:.3f}; time of "
      "all calls: {:.3f}\n",
      whole.best_of_8.geomean, whole.best_of_8.p10, whole.best_of_8.min, whole.all_calls);
  if (all.size() < 3) return;
  Table table({"speed of the picks", "problems", "over first", "p10", "worst", "fastest over first",
               "over best of 8", "p10", "worst"});
  const auto speed = [](double value) { return Cell{fmt::format("{:.3f}", value), false}; };
  for (const AgainstSuggestion& one : std::span(all).subspan(1)) {
    table.add_row({text(one.kind), number(static_cast<std::int64_t>(one.problems)), speed(one.first.geomean),
                   speed(one.first.p10), speed(one.first.min), speed(one.fastest),
                   speed(one.best_of_8.geomean), speed(one.best_of_8.p10), speed(one.best_of_8.min)});
  }
  fmt::print("\n");
  table.print(Format::text);
}

void print_details(const ModelEvaluation& e) {
  const Summary& s = e.evaluation.overall;
  fmt::print(
      "\ncall-weighted mean {:.2f}; top-1/3/5/8 mean {:.2f} / {:.2f} / {:.2f} / {:.2f}, hit {:.1f} / {:.1f} "
      "/ {:.1f} / {:.1f}; "
      "NDCG@8 {:.2f}; perfect choices from the pool {:.2f}\n",
      100 * s.weighted_mean, 100 * s.top_mean[0], 100 * s.top_mean[1], 100 * s.top_mean[2],
      100 * s.top_mean[3], 100 * s.hit_rate[0], 100 * s.hit_rate[1], 100 * s.hit_rate[2], 100 * s.hit_rate[3],
      100 * s.ndcg, 100 * s.pool_best);
  fmt::print(
      "regret in percent: mean {:.3g}, P50 {:.3g}, P95 {:.3g}, most {:.3g}; {} picks equal the oracle within "
      "noise; {} picks unmeasured, {} failed (both count as 0)\n",
      100 * s.regret_mean, 100 * s.regret_p50, 100 * s.regret_p95, 100 * s.regret_max, s.ties, s.unmeasured,
      s.failed);
  if (e.all_scored) {
    fmt::print(
        "shortlists of {} configs cost {:.2f} points of the mean and {:.2f} of P10 against scoring every "
        "config\n",
        e.shortlisted, 100 * (e.all_scored->mean - s.mean), 100 * (e.all_scored->p10 - s.p10));
  }
  if (!e.against_suggestion.empty()) print_against_library(e.against_suggestion);
  if (s.coarse > 0) {
    fmt::print("{} picks were timed less precisely than the oracle, so their efficiency may be far off{}\n",
               s.coarse,
               s.coarse < s.problems ? fmt::format("; mean of the other {} problems {:.2f}",
                                                   s.problems - s.coarse, 100 * s.mean_without_coarse)
                                     : "");
  }
  const Calibration& c = e.evaluation.calibration;
  if (c.rows == 0) return;
  fmt::print("predicted TFLOPS over {} ok rows: R2 {:.4f}, MAPE {:.1f} %\n\n", c.rows, c.r2, 100 * c.mape);
  Table decades({"measured TFLOPS from", "rows", "MAPE %", "median predicted/measured"});
  for (const auto& d : c.decades) {
    decades.add_row({number(d.from), number(static_cast<std::int64_t>(d.rows)), number(100 * d.mape, 3),
                     number(d.median_ratio, 3)});
  }
  decades.print(Format::text);
}

void print_reliability(const ModelEvaluation& e) {
  const Reliability& r = e.evaluation.reliability;
  if (r.claims == 0) {
    fmt::print("\nconfidence: the model claims none\n");
    return;
  }
  fmt::print(
      "\nconfidence: claimed probability that the pick is within 3 % of the fastest of its pool, and how "
      "often it was\n\n");
  Table table({"claimed from %", "problems", "claimed %", "observed %", "off by", "chance alone", "check"});
  for (std::size_t i = 0; i < r.bins.size(); ++i) {
    const Reliability::Bin& bin = r.bins[i];
    if (bin.claims == 0) continue;
    table.add_row({number(static_cast<std::int64_t>(10 * i)), number(static_cast<std::int64_t>(bin.claims)),
                   percent(bin.claimed), percent(bin.observed), number(100 * (bin.claimed - bin.observed), 3),
                   number(100 * bin.standard_error, 2),
                   text(!bin.checked() ? "too few"
                        : bin.holds()  ? "holds"
                                       : "off")});
  }
  table.print(Format::text);
  if (!r.checked()) {
    fmt::print("\nBrier score {:.4f}; no bin has {} problems, so no bin is checked\n", r.brier,
               Reliability::min_claims);
    return;
  }
  fmt::print(
      "\nBrier score {:.4f}; every bin of {} or more problems must be off by at most {:.0f} points: {}\n",
      r.brier, Reliability::min_claims, 100 * Reliability::tolerance, r.holds() ? "holds" : "does not hold");
}

/// Prints reliability per layout: too high confidence for one layout and too low for another would cancel out
/// in the total.
void print_reliability_by_layout(const ModelEvaluation& e) {
  Table table({"layout", "problems", "claimed %", "observed %", "off by", "chance alone", "Brier score"});
  std::size_t layouts = 0;
  for (const Slice& slice : e.evaluation.slices) {
    const Reliability& r = slice.reliability;
    if (slice.by != "layout" || r.claims == 0) continue;
    ++layouts;
    table.add_row({text(slice.value), number(static_cast<std::int64_t>(r.claims)), percent(r.claimed),
                   percent(r.observed), number(100 * (r.claimed - r.observed), 3),
                   number(100 * r.standard_error, 2), number(r.brier, 3)});
  }
  if (layouts < 2) return;
  fmt::print("\n");
  table.print(Format::text);
}

void print_worst(const ModelEvaluation& e, std::size_t count) {
  if (count == 0) return;
  fmt::print("\nworst problems\n\n");
  Table worst({"efficiency", "pick_us", "oracle_us", "pick timed", "repeat it with"});
  for (const ProblemResult* r : worst_first(e.evaluation)) {
    if (worst.size() == count) break;
    worst.add_row({percent(r->efficiency()),
                   number(r->picks.empty() ? Measurement::unknown : r->picks[0].measured.time_us, 4),
                   number(r->oracle_measured.time_us, 4),
                   text(r->picks.empty() || r->picks[0].unmeasured ? "not"
                        : r->picks[0].coarse                       ? "coarsely"
                                                                   : "as the oracle"),
                   text(reproduce_command(e, *r))});
  }
  worst.print(Format::text);
}

void print_text(const ModelEvaluation& e, std::size_t worst) {
  print_head(e);
  Table table = summary_table("who", "how");
  table.add_row(summary_cells("this model", "target " + e.target, e.evaluation.overall));
  for (const Baseline& b : e.baselines) table.add_row(summary_cells(b.name, b.note, b.summary));
  table.print(Format::text);
  fmt::print("\n");
  Table slices = summary_table("slice", "");
  for (const Slice& slice : e.evaluation.slices)
    slices.add_row(summary_cells(slice.by, slice.value, slice.summary));
  slices.print(Format::text);
  print_details(e);
  print_reliability(e);
  print_reliability_by_layout(e);
  print_worst(e, worst);
}

/// The problems of these layouts; all problems when none is named.
CompactTable of_layouts(CompactTable table, const std::vector<std::string>& names) {
  if (names.empty()) return table;
  std::set<Layout> layouts;
  for (const auto& name : names) layouts.insert(parse<Layout>(name));
  const std::size_t problems = table.problems.size();
  table.keep_problems([&](const Problem& problem) { return layouts.contains(signature_of(problem).layout); });
  if (table.problems.empty()) {
    fail(Errc::invalid_argument, "--layout {}: none of the {} problems has such a layout",
         fmt::join(names, ","), problems);
  }
  return table;
}

/// The problems of a file, with its weights; all problems when none is named.
CompactTable of_file(CompactTable table, const std::string& file) {
  if (file.empty()) return table;
  const Operation& of = operation(table.problems.front().op());
  std::unordered_map<Problem, double> wanted;
  for (const Problem& problem : read_any_problems(file, signature_of(table.problems.front()).dtype_a))
    if (&operation(problem.op()) == &of) wanted[problem] += problem.weight();
  const std::size_t problems = table.problems.size();
  table.keep_problems([&](const Problem& problem) { return wanted.contains(problem); });
  if (table.problems.empty()) {
    fail(Errc::invalid_argument,
         "--problems {}: none of its {} {} is among the {} of the data; measure them with kscout sweep "
         "--problems {}",
         file, wanted.size(), of.plural, problems, file);
  }
  for (Problem& problem : table.problems) problem.set_weight(wanted.at(problem));
  if (table.problems.size() < wanted.size())
    fmt::print(stderr, "{} of {} {} of {} are not in the data\n", wanted.size() - table.problems.size(),
               wanted.size(), of.plural, file);
  return table;
}

/// The problems that --store compares the model and the library on.
CompactTable for_store(const EvaluateOptions& options, CompactTable data) {
  const Device trained = model_device(options.model);
  if (trained.name == data.device.name) return data;
  if (trained.kind != DeviceKind::gpu || data.device.kind != DeviceKind::gpu) {
    fail(Errc::invalid_argument,
         "--store records times of the model's own device, or how a model of one GPU chooses on another; {} "
         "is "
         "of '{}' and the data of '{}'",
         options.model, trained.name, data.device.name);
  }
  CompactTable with = with_first_suggestion(data);
  if (with.problems.empty()) {
    fail(Errc::invalid_argument,
         "--store compares with the library's first suggestion, which was not measured: sweep it too, with "
         "--rules default");
  }
  return with;
}

void evaluate_verb(EvaluateOptions& options) {
  if (!options.target.empty()) options.how.target = parse<Target>(options.target);
  if (!options.train_data.empty()) options.how.training = read_compact(options.train_data);
  CompactTable evaluated =
      options.data.empty() ? read_kept(options.model, options.how) : read_compact(options.data);
  evaluated = of_file(of_layouts(std::move(evaluated), options.layouts), options.problems);
  if (options.store) evaluated = for_store(options, std::move(evaluated));
  const ModelEvaluation e =
      evaluate_model(options.model, options.store ? evaluated : std::move(evaluated), options.how);
  if (options.store && model_device(options.model).name == evaluated.device.name) {
    if (record_reference_times(options.model, {&evaluated, 1}) == 0)
      fail(Errc::invalid_argument, "--store: no problem of the data has a measured choice of {}",
           options.model);
  } else if (options.store) {
    store_on_another_gpu(options.model, {.device = evaluated.device.name,
                                         .mean = e.evaluation.overall.mean,
                                         .suggestion_mean = first_suggestion(evaluated).overall.mean,
                                         .problems = static_cast<std::uint32_t>(evaluated.problems.size())});
  }
  if (!e.training_known) {
    fmt::print(stderr,
               "kscout: warning: {} does not tell which sizes it was trained on; numbers may be in-sample\n",
               options.model);
  } else if (e.in_sample && e.trained_on) {
    fmt::print(stderr, "kscout: warning: {} of {} problems are of sizes that the model was trained on\n",
               e.trained_on, e.problems_given);
  }
  print_evaluation(e, options.format, options.worst);
  if (!options.out.empty()) write_out(options.out, evaluation_json(e, options.worst.value_or(kWorstShown)));
  if (!options.predictions_out.empty()) write_out(options.predictions_out, predictions_csv(e));
  const std::vector<std::string> goals = missed(options.least, e.evaluation.overall);
  for (const std::string& line : goals) fmt::print(stderr, "kscout: {}\n", line);
  if (!goals.empty()) throw CheckFailed{};
  const Reliability& claims = e.evaluation.reliability;
  if (options.check_confidence && (!claims.checked() || !claims.holds())) {
    fmt::print(stderr, "kscout: {}\n",
               claims.claims == 0  ? "the model claims no confidence: there was too little to train it on"
               : !claims.checked() ? "no bin of the claimed confidence has 30 problems: evaluate it on more"
                                   : "a bin of the claimed confidence is off by more than 5 points");
    throw CheckFailed{};
  }
}

}  // namespace

CompactTable read_kept(const std::string& model, ModelEvaluationOptions& how) {
  const fs::path file = fs::path(model) / kKeptMeasurements;
  if (!fs::is_regular_file(file)) {
    fail(Errc::invalid_argument, "evaluate on what? {} has no {} (kscout tune keeps it there); give --data",
         model, kKeptMeasurements);
  }
  CompactTable kept = read_compact({{file.string()}});
  const auto trained = training_sizes(model);
  if (!trained || how.training) return kept;
  CompactTable training =
      kept.of_problems([&](const Problem& problem) { return trained->contains(sizes_of(problem)); });
  if (!training.problems.empty()) how.training = std::move(training);
  return kept;
}

void print_evaluation(const ModelEvaluation& evaluation, Format format, std::optional<std::size_t> worst) {
  if (!evaluation.warning.empty()) fmt::print(stderr, "kscout: warning: {}\n", evaluation.warning);
  switch (format) {
    case Format::text:
      return print_text(evaluation, worst.value_or(kShownWorst));
    case Format::json:
      fmt::print("{}", evaluation_json(evaluation, worst.value_or(kWorstShown)));
      return;
    case Format::csv:
      fmt::print("{}", evaluation_csv(evaluation));
  }
}

void setup_evaluate(CLI::App& verb) {
  const auto options = std::make_shared<EvaluateOptions>();
  reads_file(verb.add_option("--model", options->model, "model folder or .ksf file"))->required();
  reads_file(verb.add_option(
      "--data", options->data,
      "dataset to evaluate on; several are merged (default: what tune kept in the model's folder)"));
  reads_file(verb.add_option("--train-data", options->train_data,
                             "datasets on which the static baselines are chosen (default: other folds of "
                             "--data; without --data the model's training data)"));
  check_words<Layout>(verb.add_option("--layout", options->layouts,
                                      "evaluate problems of these layouts only, comma-separated")
                          ->delimiter(','));
  reads_file(
      verb.add_option("--problems", options->problems,
                      "evaluate the problems of this file only (as of kscout exec --record), each by its "
                      "number of calls in the call-weighted mean"));
  add_word_option(verb, "--pool", options->how.pool, "where picks come from");
  check_words<Target>(
      verb.add_option("--target", options->target,
                      "evaluate this target: tflops|latency|bandwidth|relative|rank (the model's default)"));
  verb.add_flag("--in-sample", options->how.in_sample, "evaluate also sizes that the model was trained on");
  verb.add_flag_callback(
      "--no-guard", [options] { options->how.guard = false; },
      "evaluate the model's own first configs, also where its guard takes the library's first suggestion");
  verb.add_flag(
      "--store", options->store,
      "store in the model the times of 20 problems for kscout check or, when the data are of another "
      "GPU, how it chooses there beside the library's first suggestion; selectors then take the better "
      "one on that GPU");
  verb.add_option("--min-mean", options->least.mean,
                  "exit 1 when the mean efficiency is below this percentage")
      ->check(CLI::Range(0.0, 100.0));
  verb.add_option("--min-p10", options->least.p10, "exit 1 when P10 is below this percentage")
      ->check(CLI::Range(0.0, 100.0));
  verb.add_option("--min-worst", options->least.worst,
                  "exit 1 when the worst problem is below this percentage")
      ->check(CLI::Range(0.0, 100.0));
  verb.add_option("--min-top3", options->least.top3,
                  "exit 1 when the mean of the best of the first three picks is below this percentage")
      ->check(CLI::Range(0.0, 100.0));
  verb.add_flag("--check-confidence", options->check_confidence,
                "exit 1 when a bin of 30 or more problems is off by more than 5 points from the claimed "
                "probability, or no bin has 30 problems");
  verb.add_option("--worst", options->worst, "number of worst problems to show")
      ->default_str("5; 10 in JSON");
  add_out_option(verb, "--out", options->out, "write the evaluation as JSON");
  add_out_option(verb, "--predictions-out", options->predictions_out,
                 "write each problem's best 8 configs as CSV");
  add_format_option(verb, options->format);
  verb.footer(
      "Efficiency is the speed of the model's pick over the speed of the fastest measured config. Problems "
      "of sizes\n"
      "that the model was trained on are left out unless --in-sample is given.\n\n"
      "examples\n"
      "  kscout evaluate --model models/gemm_fp32_any_cpu --data held_out.parquet\n"
      "  kscout evaluate --model m                                      # after kscout tune --out m\n"
      "  kscout evaluate --model m --data d.parquet --train-data t.parquet --format json --out eval.json\n\n"
      "exit status: 0 done, 1 below a --min-... or off by --check-confidence, 2 wrong arguments "
      "or nothing to evaluate, 4 file "
      "failure");
  verb.callback([options] { evaluate_verb(*options); });
}

}  // namespace kscout::cli
