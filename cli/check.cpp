// `kscout check`: times the problems that a model's folder records, and says whether the model still holds
// on this machine.
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "core/fail.h"
#include "core/json_fields.h"
#include "options.h"
#include "sweep/model_check.h"
#include "sweep_with_progress.h"
#include "table.h"
#include "verbs.h"

namespace kscout::cli {

namespace {

struct CheckVerb {
  std::string model, backend = "cpu";
  double keep = 98;  ///< percent
  Format format = Format::text;
};

std::string verdict(const ModelCheck& check, const CheckVerb& options) {
  std::string text =
      fmt::format("{}: {:.1f} % of the fastest config's speed on {} problems, recorded were {:.1f} %",
                  check.holds(options.keep / 100) ? "holds" : "does not hold", 100 * check.mean,
                  check.problems.size(), 100 * check.recorded_mean);
  if (check.absent > 0)
    text += fmt::format("; {} of {} recorded configs cannot run here: {}", check.absent, check.configs,
                        check.absence);
  return text;
}

void print_json(const ModelCheck& check, const CheckVerb& options) {
  Json json = {{"model", options.model},
               {"holds", check.holds(options.keep / 100)},
               {"efficiency_mean", 100 * check.mean},
               {"recorded_mean", 100 * check.recorded_mean},
               {"time_over_recorded", check.time_ratio},
               {"configs", check.configs},
               {"configs_absent", check.absent},
               {"why_absent", check.absence},
               {"problems", Json::array()}};
  for (const CheckedProblem& one : check.problems) {
    json["problems"].push_back({{"problem", print(one.recorded.problem)},
                                {"config", config_name(signature_of(one.recorded.problem), one.choice)},
                                {"time_us", one.time_us},
                                {"best_us", one.best_us},
                                {"efficiency", 100 * one.efficiency()},
                                {"recorded", 100 * one.recorded.efficiency()},
                                {"failure", one.failure}});
  }
  fmt::print("{}\n", json.dump(2));
}

void check_verb(const CheckVerb& options) {
  watch_signals();
  const ModelCheck check = check_model(options.model, backend(options.backend),
                                       [](const SweepPlan& plan) { return measure_plan(plan, "check"); });
  if (options.format == Format::json) {
    print_json(check, options);
  } else {
    Table table({"problem", "config", "time_us", "best_us", "efficiency", "recorded"});
    for (const CheckedProblem& one : check.problems) {
      table.add_row({text(print(one.recorded.problem)),
                     text(config_name(signature_of(one.recorded.problem), one.choice)),
                     one.failure.empty() ? number(one.time_us, 4) : text(one.failure), number(one.best_us, 4),
                     number(100 * one.efficiency(), 3), number(100 * one.recorded.efficiency(), 3)});
    }
    table.print(options.format);
  }
  std::FILE* const out = options.format == Format::text ? stdout : stderr;
  fmt::print(out, "\n{}\ntimes of equal configs, here over recorded: {:.2f}\n", verdict(check, options),
             check.time_ratio);
  if (!check.holds(options.keep / 100)) throw CheckFailed{};
}

}  // namespace

void setup_check(CLI::App& verb) {
  const auto options = std::make_shared<CheckVerb>();
  verb.add_option("MODEL", options->model, "model folder")->required();
  verb.add_option("--backend", options->backend, "backend that runs the kernels: cpu or cuda")
      ->capture_default_str();
  verb.add_option("--keep", options->keep, "share of the recorded efficiency that must be left, %")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 100.0));
  add_format_option(verb, options->format);
  verb.footer(
      "Times the 20 problems that the model's folder records (reference_times.csv): the model's choice on\n"
      "this machine against the fastest configs of the recording, verified and interleaved. tune and train\n"
      "record them; evaluate --store records them in an older model.\n"
      "\n"
      "Columns: best_us = fastest of these configs here; efficiency and recorded = speed of the choice in\n"
      "percent of the fastest config's, here and in the recording.\n"
      "\n"
      "Examples:\n"
      "  kscout check models/gemm_bf16_h200 --backend cuda\n"
      "  kscout check models/gemm_bf16_h200\n"
      "\n"
      "exit status: 0 the model holds, 1 it does not, 2 wrong arguments, 3 no such device here, 4 no\n"
      "recorded times, or a file or device failure");
  verb.callback([options] { check_verb(*options); });
}

}  // namespace kscout::cli
