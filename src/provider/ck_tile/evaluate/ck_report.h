#pragma once
/// \file
/// Writes validations in the columns of the public CK Tile tools, and compares an oracle table with a table
/// of predictions as those tools do.
///
///     write(ck_problems_csv(evaluation.results));           // 12 columns of GEMMs, 18 of convolutions
///     write(ck_summary_csv(ck_picks(evaluation.results)));  // metric,value: 8 rows
///
/// Definitions are those of the public tools and differ from those of evaluate.h: P10 is the element at
/// floor(n / 10) of the sorted efficiencies, P50 the element at floor(n / 2), "top-5" means that the pick is
/// among the five fastest measured kernels.
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "evaluate/evaluate.h"
#include "select/model.h"

namespace kscout {

/// One problem of the summary. A pick that was not measured counts as 0.
struct CkPick {
  double efficiency = 0;  ///< fraction
  bool best = false;      ///< the pick is the fastest config
  bool among_five = false;
};

/// All results must be of one kind of problem. GEMM: m, n, k, ...; convolution: N, G, C, K, .... Efficiencies
/// are in percent. Classes by M are those of the labels (< 8, < 128, < 1024); upstream's limits are off by
/// one.
std::string ck_problems_csv(std::span<const ProblemResult> results);

std::vector<CkPick> ck_picks(std::span<const ProblemResult> results);
std::string ck_summary_csv(std::span<const CkPick> picks);

/// Compares predictions with an oracle, joined by problem_idx, as the public comparison tool does. The
/// oracle's table needs problem_idx, kernel or kernel_name, tflops ("N/A" or empty: 0); the predictions'
/// table needs problem_idx, kernel_name, rank (1 = chosen). Problems without a prediction count as 0. Throws
/// corrupt_data naming the file and what is missing.
struct CkComparison {
  std::vector<CkPick> picks;
  std::string
      problems_csv;  ///< problem_idx,oracle_kernel,oracle_tflops,ml_kernel,ml_actual_tflops,efficiency,match
  std::size_t without_pick = 0;    ///< problems without a row of rank 1
  std::size_t without_oracle = 0;  ///< problems left out: none of their kernels has a speed
};
CkComparison compare_ck_tables(std::string_view oracle, const std::string& oracle_name,
                               std::string_view predictions, const std::string& predictions_name);

// ---- Checks the plausibility of a model of backward convolutions without measurements: predicts the public
// CK Tile tools' problems with twelve kernels.
//
//     const BackwardCheck check = check_backward(Model::load("models/conv_bwd_data_bf16_gfx950"));

struct BackwardCheck {
  static constexpr std::size_t shown = 3;
  struct Line {
    Problem problem;
    std::vector<KernelConfig> best;  ///< the first three
    std::vector<double> tflops;      ///< predicted
    double gap = 0;                  ///< (first - third) / first, of tflops
  };
  std::vector<Line> lines;
  double mean = 0, least = 0, most = 0;          ///< predicted TFLOPS of first choices
  std::map<std::string, std::size_t> pipelines;  ///< how often each is the first choice
  double mean_gap = 0;
};

/// Predicts five problems of conv_bwd_data or seven of conv_bwd_weight in the model's type, with six tiles of
/// pipelines compv3 and mem. Throws invalid_argument for models of other ops.
BackwardCheck check_backward(const Model& model);

}  // namespace kscout
