#pragma once
/// \file
/// Whether a backward model says anything sensible, where no measurements are at hand: the public CK Tile
/// tools' problems and twelve kernels, predicted.
///
///     const BackwardCheck check = check_backward(Model::load("models/conv_bwd_data_bf16_gfx950"));
#include <map>
#include <string>
#include <vector>

#include "select/model.h"

namespace kscout {

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
