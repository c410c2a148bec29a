// Measures how close the shipped model's choices come to the oracle, on held-out problems.
//
//   evaluate [MODEL] [HELD_OUT.parquet] [TRAINING.parquet]
//
// Without arguments: the model and datasets of this repository. Static baselines are chosen on the training
// file.
#include <array>
#include <string>

#include <fmt/format.h>

#include <kscout/error.h>

#include "dataset/dataset.h"
#include "evaluate/evaluate_model.h"

namespace {

using namespace kscout;

void print_line(std::string_view who, const Summary& s) {
  fmt::print("{:<28} {:>8} {:>7.2f} {:>7.2f} {:>7.2f} {:>7.2f} {:>7.2f}\n", who, s.problems, 100 * s.mean,
             100 * s.p50, 100 * s.p10, 100 * s.min, 100 * s.top_mean[1]);
}

void evaluate_and_print(const std::string& model, const std::string& held_out, const std::string& training) {
  ModelEvaluationOptions options;
  options.training = read_dataset(training);
  const ModelEvaluation e = evaluate_model(model, read_dataset(held_out), options);
  fmt::print("{} on {}, target {}; percent of the fastest measured config\n\n", e.model, e.device, e.target);
  fmt::print("{:<28} {:>8} {:>7} {:>7} {:>7} {:>7} {:>7}\n", "", "problems", "mean", "p50", "p10", "min",
             "top-3");
  print_line("this model", e.evaluation.overall);
  double static_mean = 0;
  for (const Baseline& baseline : e.baselines) {
    print_line(baseline.name, baseline.summary);
    if (baseline.name == "best static") static_mean = baseline.summary.mean;
  }
  fmt::print("\n");
  double worst_family = 1;
  for (const Slice& slice : e.evaluation.slices) {
    print_line(slice.by + ": " + slice.value, slice.summary);
    if (slice.by == "shape family") worst_family = std::min(worst_family, slice.summary.mean);
  }
  const Summary& s = e.evaluation.overall;
  fmt::print("\nRESULT evaluate.mean {:.2f} %\n", 100 * s.mean);
  fmt::print("RESULT evaluate.p10 {:.2f} %\n", 100 * s.p10);
  fmt::print("RESULT evaluate.worst_shape_family_mean {:.2f} %\n", 100 * worst_family);
  fmt::print("RESULT evaluate.top3 {:.2f} %\n", 100 * s.top_mean[1]);
  fmt::print("RESULT evaluate.static_mean {:.2f} %\n", 100 * static_mean);
}

}  // namespace

int main(int argc, char** argv) {
  std::array<std::string, 3> files = {"models/gemm_fp32_zen3-2c", "data/gemm_fp32_zen3-2c.held_out.parquet",
                                      "data/gemm_fp32_zen3-2c.train.parquet"};
  for (int i = 1; i < argc && i <= 3; ++i) files[static_cast<std::size_t>(i - 1)] = argv[i];
  try {
    evaluate_and_print(files[0], files[1], files[2]);
  } catch (const kscout::Error& error) {
    fmt::print(stderr, "evaluate: {}\n", error.what());
    return 4;
  }
  return 0;
}
