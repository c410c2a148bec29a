#include <fmt/format.h>

#include "core/json_fields.h"
#include "evaluate_report.h"
#include "sibling.h"
#include "train/train.h"
#include "tune.h"

namespace kscout::cli {

namespace {

namespace fs = std::filesystem;

/// The model's results beside its baselines.
Table results_table(const Verdict& verdict) {
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

}  // namespace

void print_tuned(const TunedOp& done, const TuneOptions& options) {
  const std::size_t training = done.parts.training.problems.size(),
                    held_out = done.parts.held_out.problems.size();
  const ModelEvaluation& evaluation = done.verdict.candidate;
  fmt::print("tuned      {}\n", word(done.op));
  fmt::print("measured   {} problems, {} configs of rule set '{}', {} rows in {:.0f} s{}, on {}\n",
             training + held_out, done.measured.configs.size(), options.rules, done.measured.rows.size(),
             done.report.progress.elapsed_s,
             done.new_problems < training + held_out
                 ? fmt::format(" and before ({} problems are new)", done.new_problems)
                 : "",
             done.measured.device.name);
  const std::size_t evaluated = evaluation.evaluation.results.size();
  fmt::print("trained    on {} problems (target {}), evaluated on {} held-out problem{}\n\n", training,
             evaluation.target, evaluated, evaluated == 1 ? "" : "s");
  results_table(done.verdict).print(Format::text);
  fs::path shown = done.target;
  if (done.verdict.why_not.empty()) {
    fmt::print("\ninstalled  {}{}\n", done.target.string(),
               options.out.empty() ? "" : " (name it to run and predict with --model)");
    if (done.before == done.target) fmt::print("before     {}\n", (done.target / kPreviousModel).string());
  } else {
    shown = done.candidate;
    fmt::print("\nkept       {}: {}\n", done.before.string(), done.verdict.why_not);
    fmt::print("new        {} (--replace installs; a later tune trains on these measurements, too)\n",
               shown.string());
  }
  fmt::print("evaluate   {} evaluate --model {}\n", shell_word(program_invocation_name),
             shell_word(shown.string()));
}

std::string tuned_json(const TunedOp& done) {
  Json json = Json::parse(evaluation_json(done.verdict.candidate));
  const bool installed = done.verdict.why_not.empty();
  json["op"] = word(done.op);
  json["model"] = (installed ? done.target : done.candidate).string();
  json["installed"] = installed;
  json["why_not_installed"] = installed ? Json(nullptr) : Json(done.verdict.why_not);
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
