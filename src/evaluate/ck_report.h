#pragma once
/// \file
/// Validations in the columns of the public CK Tile tools, for scripts that read those; and their comparison
/// of an oracle table with a table of predictions.
///
///     write(ck_problems_csv(evaluation.results));                   // 12 columns of GEMMs, 18 of convolutions
///     write(ck_summary_csv(ck_picks(evaluation.results)));         // metric,value: 8 rows
///
/// Definitions are theirs here, and differ from ours: P10 is the element at floor(n / 10) of the sorted
/// efficiencies, P50 that at floor(n / 2), "top-5" means that the pick is among the five fastest measured
/// kernels.
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "evaluate/evaluate.h"
#include "select/model.h"

namespace kscout {

/// One problem as the summary sees it. A pick that was not measured counts as 0.
struct CkPick {
  double efficiency = 0;  ///< fraction
  bool best = false;      ///< the pick is the fastest
  bool among_five = false;
};

/// All results are of one kind of problem. GEMM: m, n, k, ...; convolution: N, G, C, K, .... Efficiencies in
/// percent; classes by M are those that the labels say (< 8, < 128, < 1024), not upstream's off-by-one.
std::string ck_problems_csv(std::span<const ProblemResult> results);

std::vector<CkPick> ck_picks(std::span<const ProblemResult> results);
std::string ck_summary_csv(std::span<const CkPick> picks);

/// Predictions against an oracle, joined by problem_idx: what their comparison tool does. The oracle's table
/// needs problem_idx, kernel or kernel_name, tflops ("N/A" or empty: 0); the predictions' problem_idx,
/// kernel_name, rank (1 = chosen). Problems without a prediction count as 0. Throws corrupt_data naming the
/// file and what is missing.
struct CkComparison {
  std::vector<CkPick> picks;
  std::string
      problems_csv;  ///< problem_idx,oracle_kernel,oracle_tflops,ml_kernel,ml_actual_tflops,efficiency,match
  std::size_t without_pick = 0;    ///< no row of rank 1
  std::size_t without_oracle = 0;  ///< no kernel of the problem has a speed: left out
};
CkComparison compare_ck_tables(std::string_view oracle, const std::string& oracle_name,
                               std::string_view predictions, const std::string& predictions_name);

// ---- Whether a backward model says anything sensible, where no measurements are at hand: the public CK Tile
// tools' problems and twelve kernels, predicted.
//
//     const BackwardCheck check = check_backward(Model::load("models/conv_bwd_data_bf16_gfx950"));

struct BackwardCheck {
  static constexpr std::size_t shown = 3;
  struct Line {
    Problem problem;
    std::vector<KernelConfig> best;  ///< the first three
    std::vector<double> tflops;      ///< predicted
    double gap = 0;                  ///< (first - third) / first
  };
  std::vector<Line> lines;
  double mean = 0, least = 0, most = 0;          ///< predicted TFLOPS of first choices
  std::map<std::string, std::size_t> pipelines;  ///< how often each is first
  double mean_gap = 0;
};

/// Five problems of conv_bwd_data or seven of conv_bwd_weight, six tiles with compv3 and mem, in the model's
/// type. Throws invalid_argument for models of other operations.
BackwardCheck check_backward(const Model& model);

}  // namespace kscout
