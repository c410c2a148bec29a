#include "tune_report.h"

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <kscout/error.h>

#include "core/files.h"
#include "core/json_fields.h"
#include "evaluate_report.h"
#include "report/report.h"
#include "sibling.h"
#include "train/train.h"

namespace kscout::cli {

namespace {

namespace fs = std::filesystem;

/// The folder of the new model.
fs::path model_of(const TunedOp& done) { return done.verdict.why_not.empty() ? done.target : done.candidate; }

/// The model's results beside its baselines.
Table results_table(const TuneVerdict& verdict) {
  Table table({"% of the fastest measured config", "mean", "p10", "worst"});
  const auto add = [&](std::string_view who, const Summary& s) {
    const auto percent = [](double share) { return Cell{fmt::format("{:.1f}", 100 * share), false}; };
    table.add_row({text(who), percent(s.mean), percent(s.p10), percent(s.min)});
  };
  add("model", verdict.candidate.evaluation.overall);
  if (verdict.before) add("model before", verdict.before->evaluation.overall);
  for (const Baseline& baseline : verdict.candidate.baselines) {
    if (baseline.name == "best static") add("best fixed config", baseline.summary);
    if (baseline.name == "analytic model") add(baseline.name, baseline.summary);
  }
  return table;
}

/// The results by size class, with the trees that answer there.
Table size_table(const TunedOp& done) {
  Table table({"GFLOP", "held out", "model", "trees"});
  for (const Slice& slice : done.verdict.candidate.evaluation.slices) {
    if (slice.by != kSizeSlice) continue;
    const auto size = static_cast<std::size_t>(parse<SizeClass>(slice.value));
    table.add_row({text(slice.value), number(static_cast<std::int64_t>(slice.summary.problems)),
                   Cell{fmt::format("{:.1f}", 100 * slice.summary.mean), false},
                   text(done.by_class ? word((*done.by_class)[size]) : std::string_view("new"))});
  }
  return table;
}

std::string plural(std::size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

/// The model's choices beside those of the library alone.
void print_against_library(const ModelEvaluation& evaluation) {
  if (evaluation.against_suggestion.empty()) return;
  const AgainstSuggestion& against = evaluation.against_suggestion.front();
  fmt::print(
      "\nlibrary    {:.3f} times the speed of the library's first choice on {} (geometric mean; p10 {:.3f}, "
      "worst {:.3f})\n",
      against.first.geomean, plural(against.problems, "held-out problem"), against.first.p10,
      against.first.min);
}

std::vector<std::string_view> words_of(const std::set<Layout>& layouts) {
  std::vector<std::string_view> words;
  for (const Layout layout : layouts) words.push_back(word(layout));
  return words;
}

/// What both models were compared on, and the layouts that only the new one knows.
void print_compared(const TunedOp& done) {
  const TuneVerdict& verdict = done.verdict;
  if (verdict.before)
    fmt::print("compared   with {} on {} that neither was trained on (layouts {})\n", done.before.string(),
               plural(verdict.before->evaluation.results.size(), "problem"),
               fmt::join(words_of(verdict.compared_layouts), ", "));
  if (verdict.new_layouts.empty()) return;
  std::string result = "none is held out, so they are not evaluated";
  if (const auto& on_new = verdict.on_new_layouts)
    result = fmt::format("the new model reaches {:.1f} % on {}", 100 * on_new->evaluation.overall.mean,
                         plural(on_new->evaluation.results.size(), "held-out problem"));
  fmt::print("layouts    {}: {} has no model of them; {}\n", fmt::join(words_of(verdict.new_layouts), ", "),
             done.before.string(), result);
}

/// " 0.3.21 (kernels of Zen), /usr/lib/libopenblas.so.0"; facts that the library does not report are missing.
std::string library_text(const std::map<std::string, std::string>& library) {
  std::string text;
  const auto add = [&](const char* fact, std::string_view form) {
    if (const auto found = library.find(fact); found != library.end())
      text += fmt::format(fmt::runtime(form), found->second);
  };
  add("release", " {}");
  add("kernels", " (kernels of {})");
  add("file", ", {}");
  return text;
}

/// What all calls of the caller's own problems take.
void print_own(const OwnResult& own) {
  fmt::print("\nyours      {} of {} measured; the model was trained on {} of them\n", own.measured,
             plural(own.given, "problem"), own.trained_on);
  if (own.left_out > 0)
    fmt::print("left out   {}, the first: {}\n", plural(own.left_out, "problem"), own.reason);
  if (own.all.problems == 0) return;
  fmt::print("today      {}{}\n", own.today, library_text(own.library));
  if (!own.refused.empty()) fmt::print("refused    not compared with {}: {}\n", own.today, own.refused);
  fmt::print("\n");
  const bool before = own.all.before_us.has_value(), best_of_8 = own.all.best_of_8_us.has_value();
  std::vector<std::string> names{"ms of all calls", "problems", "calls", "today"};
  if (best_of_8) names.push_back("best of 8");
  names.insert(names.end(), {"KernelScout", "fastest"});
  if (before) names.push_back("model before");
  names.push_back("speedup");
  Table table({names.begin(), names.end()});
  const auto add = [&](std::string_view which, const CallTimes& times) {
    const auto ms = [](double us) {
      return Cell{std::isnan(us) ? "-" : fmt::format("{:.4g}", us * 1e-3), false};
    };
    std::vector<Cell> cells{text(which), number(static_cast<std::int64_t>(times.problems)),
                            number(times.calls), ms(times.today_us)};
    if (best_of_8) cells.push_back(ms(times.best_of_8_us.value_or(0)));
    cells.insert(cells.end(), {ms(times.model_us), ms(times.oracle_us)});
    if (before) cells.push_back(ms(times.before_us.value_or(0)));
    const double speedup = times.speedup();
    cells.push_back(Cell{std::isnan(speedup) ? "-" : fmt::format("{:.2f}", speedup), false});
    table.add_row(std::move(cells));
  };
  add("all", own.all);
  if (own.held_out.problems > 0) add("not trained on", own.held_out);
  table.print(Format::text);
}

Json own_json(const OwnResult& own) {
  const auto times = [](const CallTimes& of) {
    return Json{{"problems", of.problems},
                {"calls", of.calls},
                {"today_us", std::isnan(of.today_us) ? Json(nullptr) : Json(of.today_us)},
                {"best_of_8_us", of.best_of_8_us ? Json(*of.best_of_8_us) : Json(nullptr)},
                {"kernelscout_us", of.model_us},
                {"fastest_us", of.oracle_us},
                {"model_before_us", of.before_us ? Json(*of.before_us) : Json(nullptr)}};
  };
  return {{"today", own.today},
          {"library", own.library.empty() ? Json(nullptr) : Json(own.library)},
          {"refused", own.refused.empty() ? Json(nullptr) : Json(own.refused)},
          {"given", own.given},
          {"measured", own.measured},
          {"trained_on", own.trained_on},
          {"left_out", own.left_out},
          {"all", times(own.all)},
          {"held_out", times(own.held_out)}};
}

}  // namespace

fs::path write_tune_report(const TunedOp& done) {
  const fs::path model = model_of(done);
  try {
    ModelEvaluationOptions how;
    const CompactTable kept = read_kept(model.string(), how);
    fs::path report = model / kReportFile;
    write_file_atomically(report, report_page(model_report(model, kept, how)));
    return report;
  } catch (const Error& error) {
    fmt::print(stderr, "kscout tune: {} gets no {}: {}\n", model.string(), kReportFile, error.what());
    return {};
  }
}

void print_tuned(const TunedOp& done, const TuneRequest& request, const fs::path& report) {
  const std::size_t problems = done.training_problems + done.held_out_problems;
  const ModelEvaluation& evaluation = done.verdict.candidate;
  fmt::print("tuned      {}\n", word(done.op));
  fmt::print(
      "measured   {} problems, {} configs of {}, {} rows in {:.0f} s{}, on {}\n", problems, done.configs,
      done.chosen_among, done.rows, done.measured_s,
      done.new_problems < problems ? fmt::format(" and before ({} problems are new)", done.new_problems) : "",
      done.device);
  const std::size_t evaluated = evaluation.evaluation.results.size();
  fmt::print("trained    on {} problems of {:.2g} to {:.2g} GFLOP (target {}), evaluated on {}\n\n",
             done.training_problems, done.smallest_gflop, done.largest_gflop, evaluation.target,
             plural(evaluated, "held-out problem"));
  results_table(done.verdict).print(Format::text);
  fmt::print("\n");
  size_table(done).print(Format::text);
  print_against_library(evaluation);
  if (done.own) print_own(*done.own);
  if (done.verdict.before || !done.verdict.new_layouts.empty()) fmt::print("\n");
  print_compared(done);
  if (done.verdict.why_not.empty()) {
    fmt::print("\ninstalled  {}{}\n", done.target.string(),
               request.out.empty() ? "" : " (name it to run and predict with --model)");
    if (done.before == done.target) fmt::print("before     {}\n", (done.target / kPreviousModel).string());
  } else {
    fmt::print("\nkept       {}: {}\n", done.before.string(), done.verdict.why_not);
    fmt::print("new        {} (--replace installs; a later tune trains on these measurements, too)\n",
               done.candidate.string());
  }
  if (!report.empty()) fmt::print("report     {}\n", report.string());
  fmt::print("evaluate   {} evaluate --model {}\n", shell_word(program_invocation_name),
             shell_word(model_of(done).string()));
}

void warn_of_load(const TunedOp& done) {
  if (done.busy.empty()) return;
  const bool installed = done.verdict.why_not.empty();
  fmt::print(
      stderr,
      "kscout tune: warning: the times are of a busy machine, and the model learned them: {}, then {}\n",
      done.busy,
      installed ? fmt::format("remove {} and tune again", model_of(done).string())
                : std::string("tune again with --restart"));
}

std::string tuned_json(const TunedOp& done, const fs::path& report) {
  Json json = Json::parse(evaluation_json(done.verdict.candidate));
  const bool installed = done.verdict.why_not.empty();
  json["op"] = word(done.op);
  json["model"] = model_of(done).string();
  json["report"] = report.empty() ? Json(nullptr) : Json(report.string());
  json["installed"] = installed;
  json["why_not_installed"] = installed ? Json(nullptr) : Json(done.verdict.why_not);
  const TuneVerdict& verdict = done.verdict;
  json["trained_gflop"] = {done.smallest_gflop, done.largest_gflop};
  if (done.by_class) {
    for (std::size_t c = 0; c < kSizeClasses; ++c)
      json["trees"][std::string(word(static_cast<SizeClass>(c)))] = word((*done.by_class)[c]);
  }
  json["compared"] = nullptr;
  if (verdict.before)
    json["compared"] = {{"problems", verdict.before->evaluation.results.size()},
                        {"layouts", words_of(verdict.compared_layouts)}};
  const auto& on_new = verdict.on_new_layouts;
  json["new_layouts"] = {
      {"layouts", words_of(verdict.new_layouts)},
      {"problems", on_new ? on_new->evaluation.results.size() : 0},
      {"efficiency_mean", on_new ? Json(100 * on_new->evaluation.overall.mean) : Json(nullptr)}};
  const Load& load = done.load;
  json["load"] = nullptr;
  if (load.seconds > 0)
    json["load"] = {{"cpus", load.cpus},
                    {"others", std::isnan(load.others) ? Json(nullptr) : Json(load.others)},
                    {"throttled", load.throttled},
                    {"busy", done.busy.empty() ? Json(nullptr) : Json(done.busy)}};
  json["own_problems"] = done.own ? own_json(*done.own) : Json(nullptr);
  json["model_before"] = nullptr;
  if (!done.before.empty()) {
    const bool moved = installed && done.before == done.target;
    const auto& evaluation = done.verdict.before;
    json["model_before"] = {
        {"model", (moved ? done.target / kPreviousModel : done.before).string()},
        {"efficiency_mean", evaluation ? Json(100 * evaluation->evaluation.overall.mean) : Json(nullptr)}};
  }
  return json.dump(2);
}

}  // namespace kscout::cli
