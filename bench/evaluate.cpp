// Measures how close the choices of the models for any CPU come to the fastest measured config, on the
// held-out problems of each measured CPU, by size class.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <kscout/error.h>

#include "dataset/compact_table.h"
#include "evaluate/evaluate_model.h"
#include "op/problem_sets.h"

namespace {

using namespace kscout;
namespace fs = std::filesystem;

constexpr std::string_view kOps[] = {"gemm", "conv_fwd", "conv_bwd_data", "conv_bwd_weight"};
/// The table whose figures the README shows: problems of all sizes on a CPU that did nothing else.
constexpr std::string_view kShown = "graniterapids-2c.sizes_held_out.parquet";

/// The held-out tables of an operation's CPU kernels.
std::vector<fs::path> held_out_tables(std::string_view op) {
  std::vector<fs::path> tables;
  const std::string before = fmt::format("{}_fp32_", op);
  for (const auto& entry : fs::directory_iterator(KSCOUT_DATA)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(before) && name.ends_with("held_out.parquet")) tables.push_back(entry.path());
  }
  std::ranges::sort(tables);
  return tables;
}

std::string mean_and_p10(const Summary& s) {
  return s.problems == 0 ? std::string("-") : fmt::format("{:.1f}, {:.1f}", 100 * s.mean, 100 * s.p10);
}

void evaluate_on(std::string_view op, const fs::path& table) {
  ModelEvaluationOptions how;
  // Not all tables have the whole rule set of today.
  how.pool = table.filename().string().ends_with(kShown) ? Pool::family : Pool::measured;
  const ModelEvaluation e = evaluate_model(fmt::format(KSCOUT_MODELS "/{}_fp32_any_cpu", op),
                                           read_compact({{table.string()}}), how);
  std::string row = fmt::format("| `{}` | {}", table.stem().string(), e.evaluation.results.size());
  for (const std::string_view size : EnumWords<SizeClass>::words) {
    const auto slice = std::ranges::find_if(
        e.evaluation.slices, [&](const Slice& one) { return one.by == kSizeSlice && one.value == size; });
    row += " | " + (slice == e.evaluation.slices.end() ? "-" : mean_and_p10(slice->summary));
  }
  fmt::print("{} | {} |\n", row, mean_and_p10(e.evaluation.overall));
  if (table.filename() != fmt::format("{}_fp32_{}", op, kShown)) return;
  fmt::print("RESULT evaluate.{}_mean {:.1f} %\nRESULT evaluate.{}_p10 {:.1f} %\n", op,
             100 * e.evaluation.overall.mean, op, 100 * e.evaluation.overall.p10);
  for (const Baseline& baseline : e.baselines) {
    if (baseline.name == "best static")
      fmt::print("RESULT evaluate.{}_static_mean {:.1f} %\n", op, 100 * baseline.summary.mean);
  }
}

}  // namespace

int main() {
  fmt::print("| table | problems |");
  for (const std::string_view size : EnumWords<SizeClass>::words) fmt::print(" {} |", size);
  fmt::print(" all |\n|---|---:|---:|---:|---:|---:|---:|\n");
  try {
    for (const std::string_view op : kOps) {
      for (const fs::path& table : held_out_tables(op)) evaluate_on(op, table);
    }
  } catch (const kscout::Error& error) {
    fmt::print(stderr, "evaluate: {}\n", error.what());
    return 4;
  }
  return 0;
}
