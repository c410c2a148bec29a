// `kscout compare`: checks whether a new model may replace an old one.
#include <filesystem>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "core/fail.h"
#include "dataset/dataset.h"
#include "evaluate/compare_picks.h"
#include "evaluate/evaluate_model.h"
#include "options.h"
#include "select/model.h"
#include "verbs.h"

namespace kscout::cli {

namespace {

struct CompareOptions {
  std::string before, after, data;
  bool in_sample = false, store = false;
  AcceptanceLimits limits;
  Format format = Format::text;
};

bool is_model(const std::string& path) {
  return std::filesystem::is_directory(path) || path.ends_with(".ksf");
}

std::vector<EvaluatedPick> picks_of(const std::string& path, const CompareOptions& options) {
  if (!is_model(path)) return read_picks(path);
  if (options.data.empty())
    fail(Errc::invalid_argument, "{} is a model: on which measurements? give --data FILE", path);
  ModelEvaluationOptions how;
  how.in_sample = options.in_sample;
  return evaluated_picks(evaluate_model(path, read_compact({{options.data}}), how).evaluation);
}

/// Throws unless `before` is a model for any CPU and `after` one of a CPU, in a folder.
void check_store(const CompareOptions& options) {
  if (!is_model(options.before) || !is_model(options.after))
    fail(Errc::invalid_argument, "--store is for two models, not for tables of picks");
  if (!Model::load(options.before).data().any_cpu || Model::load(options.after).data().any_cpu) {
    fail(Errc::invalid_argument,
         "--store records how a model of one CPU compares with the model for any CPU: give first the model "
         "for "
         "any CPU, then the other");
  }
}

void compare(const CompareOptions& options) {
  if (options.store) check_store(options);
  const PickComparison c =
      compare_picks(picks_of(options.before, options), picks_of(options.after, options), options.limits);
  const auto percent_of = [&](std::size_t count) {
    return 100 * static_cast<double>(count) / static_cast<double>(c.problems);
  };
  Table table({"what", "old", "new", "change", "limit", "met"});
  const Criterion* criterion = c.criteria.data();
  const auto statistic = [&](std::string_view name, const PickComparison::Statistic& s) {
    table.add_row({text(name), text(fmt::format("{:.4f}", 100 * s.before)),
                   text(fmt::format("{:.4f}", 100 * s.after)), text(fmt::format("{:+.4f}", criterion->value)),
                   text(criterion->limit), flag(criterion->met)});
    ++criterion;
  };
  statistic("mean efficiency, %", c.mean);
  statistic("median efficiency, %", c.median);
  statistic("P10 efficiency, %", c.p10);
  table.add_row({text("largest loss of a problem"), text(""), text(c.worst_problem),
                 text(fmt::format("{:+.4f}", c.worst_points)), text(criterion->limit), flag(criterion->met)});
  const auto counted = [&](std::string_view name, std::size_t count) {
    table.add_row({text(name), text(""), text(fmt::format("{}", count)),
                   text(fmt::format("{:.1f} %", percent_of(count))), text(""), text("")});
  };
  counted("problems in both", c.problems);
  counted("same config", c.agreeing);
  counted("improved", c.improved);
  counted(fmt::format("same (within {} points)", options.limits.same_points), c.same);
  counted("degraded", c.degraded);
  table.print(options.format);
  if (c.only_old + c.only_new > 0)
    fmt::print(stderr, "left out: {} problems only in the old list, {} only in the new one\n", c.only_old,
               c.only_new);
  if (options.store) {
    store_against_any_cpu(options.after, {.mean = c.mean.after,
                                          .any_cpu_mean = c.mean.before,
                                          .problems = static_cast<std::uint32_t>(c.problems)});
  }
  const bool accepted = all_met(c.criteria);
  fmt::print(stderr, "{}\n",
             accepted ? "PASS: the new one is accepted" : "FAIL: the new one is not accepted");
  if (!accepted) throw CheckFailed{};
}

}  // namespace

void setup_compare(CLI::App& verb) {
  const auto options = std::make_shared<CompareOptions>();
  verb.add_option("old", options->before,
                  "a table of picks (validate --out, evaluate --format csv, or the public CK Tile "
                  "tools'), or a model")
      ->required();
  verb.add_option("new", options->after, "its possible replacement, in the same form")->required();
  verb.add_option("--data", options->data, "for models: the dataset that both are evaluated on");
  verb.add_flag("--in-sample", options->in_sample,
                "for models: evaluate also sizes that they were trained on");
  verb.add_flag(
      "--store", options->store,
      "old is the model for any CPU: store both means in the file of `new`; selectors take the better "
      "model");
  AcceptanceLimits& limits = options->limits;
  const auto limit = [&](const char* name, double& value, const char* help) {
    verb.add_option(name, value, help)->capture_default_str()->check(CLI::Range(0.0, 100.0));
  };
  limit("--mean", limits.mean_points, "max loss of the mean efficiency, points");
  limit("--median", limits.median_points, "max loss of the median, points");
  limit("--p10", limits.p10_percent, "max loss of P10, percent of the old P10");
  limit("--drop", limits.drop_points, "max loss of any problem, points");
  limit("--same", limits.same_points, "smaller changes of a problem count as none, points");
  verb.add_flag("--both-ways", limits.both_ways,
                "refuse large gains, too, as the public CK Tile tools do (default: any gain is accepted)");
  add_format_option(verb, options->format);
  verb.footer(
      "Efficiencies are percent of the oracle; points are their differences.\n\n"
      "examples\n"
      "  kscout compare old.csv new.csv\n"
      "  kscout compare models/old models/new --data held_out.parquet\n"
      "  kscout compare models/gemm_fp32_any_cpu tuned/gemm_fp32_zen3-2c --data held_out.parquet --store\n\n"
      "exit status: 0 accepted, 1 not accepted, 2 wrong arguments or nothing in common, 4 file failure");
  verb.callback([options] { compare(*options); });
}

}  // namespace kscout::cli
