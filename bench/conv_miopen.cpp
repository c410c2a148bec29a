// Measures how close models of MIOpen's solvers come to the fastest recorded one, on geometries of a find
// database that they were not trained on: a quarter, drawn by `kscout dataset split --by geometry`.
// Candidates are the solvers recorded for a problem; problems with one solver do not count.
//
//   conv_miopen --find-db FILE [--device gfx90a]
//
// `static` takes the first recorded solver of one fixed order per direction and type, by mean efficiency on
// the other geometries.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#include "bench_program.h"
#include "dataset/operations.h"
#include "evaluate/evaluate_model.h"
#include "import/import.h"

namespace {

using namespace kscout;

constexpr DType kTypes[] = {DType::fp32, DType::fp16, DType::bf16};

struct Options {
  std::string find_db, device = "gfx90a";
};

/// The problems with at least two solvers.
MeasurementTable with_a_choice(const MeasurementTable& table) {
  std::vector<std::size_t> solvers(table.problems.size());
  for (const auto& row : table.rows) ++solvers[row.problem];
  std::unordered_map<Problem, std::size_t> of;
  for (std::size_t i = 0; i < solvers.size(); ++i) of[table.problems[i]] = solvers[i];
  return table_of_problems(table, [&](const Problem& problem) { return of.at(problem) >= 2; });
}

/// Scores each config by its mean efficiency on the problems of a table that have it.
Scorer fixed_order(const MeasurementTable& table) {
  std::vector<double> best(table.problems.size(), std::numeric_limits<double>::infinity());
  for (const auto& row : table.rows) best[row.problem] = std::min(best[row.problem], row.measured.time_us);
  struct Mean {
    double sum = 0, count = 0;
  };
  std::unordered_map<KernelConfig, Mean> means;
  for (const auto& row : table.rows) {
    Mean& mean = means[table.configs[row.config]];
    mean.sum += best[row.problem] / row.measured.time_us;
    ++mean.count;
  }
  return [means = std::move(means)](const Problem&, std::span<const KernelConfig> configs) {
    Scores scores;
    for (const KernelConfig& config : configs) {
      const auto found = means.find(config);
      scores.score.push_back(found == means.end() ? 0 : found->second.sum / found->second.count);
    }
    return scores;
  };
}

struct Results {
  std::vector<ProblemResult> ours, fixed;

  void add(const Results& other) {
    ours.insert(ours.end(), other.ours.begin(), other.ours.end());
    fixed.insert(fixed.end(), other.fixed.begin(), other.fixed.end());
  }
};

Summary summary_of(const std::vector<ProblemResult>& results) {
  std::vector<const ProblemResult*> all;
  for (const ProblemResult& one : results) all.push_back(&one);
  return summarise(all);
}

void print_line(std::string_view what, const Results& results) {
  const Summary ours = summary_of(results.ours), fixed = summary_of(results.fixed);
  fmt::print("{:<24} {:>8} {:>7.2f} {:>7.2f} {:>7.2f} {:>7.2f} {:>9.2f} {:>9.2f}\n", what, ours.problems,
             100 * ours.mean, 100 * ours.p10, 100 * ours.p1, 100 * ours.top_mean[1], 100 * fixed.mean,
             100 * fixed.p10);
}

/// The problems of one type.
MeasurementTable of_type(const MeasurementTable& table, DType dtype) {
  return table_of_problems(table,
                           [&](const Problem& problem) { return signature_of(problem).dtype_a == dtype; });
}

Results evaluate_one(const MeasurementTable& table, const std::string& model) {
  const TableParts parts = split_table(table, 0.25, 1, SplitBy::geometry);
  ModelEvaluation found = evaluate_model(model, parts.held_out, {});
  if (found.trained_on > 0)
    fail(
        Errc::invalid_argument,
        "{} was trained on {} of the held-out problems; train it on the part that `kscout dataset split --by "
        "geometry` writes to --out",
        model, found.trained_on);
  Results results;
  results.ours = std::move(found.evaluation.results);
  results.fixed = evaluate(parts.held_out, fixed_order(parts.training), measured_pool).results;
  return results;
}

void run(const Options& options) {
  fmt::print("{:<24} {:>8} {:>7} {:>7} {:>7} {:>7} {:>9} {:>9}\n", "", "problems", "mean", "p10", "p1",
             "top-3", "static", "its p10");
  Results all;
  std::map<Op, Summary> directions;
  for (const Op op : kDirections) {
    ImportRequest request{.from = ImportFormat::miopen_find_db, .op = op};
    request.device = device_preset(options.device);
    const MeasurementTable table = with_a_choice(import_file(options.find_db, request).table);
    Results direction;
    for (const DType dtype : kTypes) {
      const MeasurementTable part = of_type(table, dtype);
      if (part.problems.empty()) continue;
      const Results one = evaluate_one(part, fmt::format("models/{}_{}_gfx90a", word(op), word(dtype)));
      print_line(fmt::format("{} {}", word(op), word(dtype)), one);
      direction.add(one);
    }
    print_line(word(op), direction);
    directions[op] = summary_of(direction.ours);
    all.add(direction);
  }
  print_line("all", all);
  const Summary ours = summary_of(all.ours), fixed = summary_of(all.fixed);
  fmt::print("\nRESULT conv_miopen.mean {:.2f} %\n", 100 * ours.mean);
  fmt::print("RESULT conv_miopen.p10 {:.2f} %\n", 100 * ours.p10);
  fmt::print("RESULT conv_miopen.p1 {:.2f} %\n", 100 * ours.p1);
  fmt::print("RESULT conv_miopen.static_mean {:.2f} %\n", 100 * fixed.mean);
  fmt::print("RESULT conv_miopen.static_p10 {:.2f} %\n", 100 * fixed.p10);
  for (const auto& [op, summary] : directions)
    fmt::print("RESULT conv_miopen.{}_mean {:.2f} %\n", word(op), 100 * summary.mean);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("choices of MIOpen's solvers against the fastest recorded one");
  app.add_option("--find-db", options.find_db, "find database of MIOpen, also compressed")->required();
  app.add_option("--device", options.device,
                 "preset of the database's GPU; the file's name gives the number of its compute units")
      ->capture_default_str();
  return bench::run_bench("conv_miopen", app, argc, argv, [&] {
    run(options);
    return 0;
  });
}
