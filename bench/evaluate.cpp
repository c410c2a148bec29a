// Measures how close the choices of the models for any CPU come to the fastest measured config, on the
// held-out problems of each measured CPU, by size class; then how fast the choices of the H200's models of
// convolutions are beside what cuDNN suggests.
#include <algorithm>
#include <filesystem>
#include <span>
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

/// Speeds of the H200's picks on a table of data/, by kind of convolution.
void beside_suggestions(std::string_view op, std::string_view table) {
  const ModelEvaluation e = evaluate_model(fmt::format(KSCOUT_MODELS "/{}_bf16_h200", op),
                                           read_compact({{fmt::format(KSCOUT_DATA "/{}", table)}}), {});
  for (const AgainstSuggestion& one : e.against_suggestion) {
    const std::string what = one.kind.empty() ? fmt::format("`{}` | all", table) : "| " + one.kind;
    fmt::print("| {} | {} | {:.3f} | {:.3f} | {:.3f} | {:.3f} | {:.3f} | {:.3f} | {:.3f} |\n", what,
               one.problems, one.fastest, one.first.geomean, one.first.p10, one.first.min,
               one.best_of_8.geomean, one.best_of_8.p10, one.all_calls);
    if (one.kind.empty() && table.find("networks") != table.npos)
      fmt::print("RESULT evaluate.{}_h200_vs_cudnn {:.3f} x\n", op, one.first.geomean);
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
    fmt::print(
        "\n| table | kind | problems | fastest over first | over first | P10 | worst | over best of 8 | P10 "
        "| time of all calls |\n|---|---|---:|---:|---:|---:|---:|---:|---:|---:|\n");
    for (const std::string_view set : {"networks", "joint"}) {
      for (const std::string_view op : std::span(kOps).subspan(1))
        beside_suggestions(op, fmt::format("{}_bf16_h200.{}_held_out.parquet", op, set));
    }
    beside_suggestions("conv_fwd", "conv_fwd_fp16_h200.joint_held_out.parquet");
  } catch (const kscout::Error& error) {
    fmt::print(stderr, "evaluate: {}\n", error.what());
    return 4;
  }
  return 0;
}
