#pragma once
/// \file
/// Trains the small forest that predicts the speed of a problem's best config. This prediction turns relative
/// scores into times.
#include <cstdint>
#include <vector>

#include "features/schema.h"
#include "forest/forest.h"
#include "train/training_set.h"

namespace kscout {

struct BestTflops {
  Forest forest;  ///< predicts ln TFLOPS from `features`
  /// Positions in the schema: the features that depend on the problem only.
  std::vector<std::uint32_t> features;
  std::vector<double> out_of_fold;  ///< ln TFLOPS per problem of the set, in TrainingSet::log_unit
  double r2 = 0;                    ///< of out_of_fold
};

BestTflops train_best_tflops(const TrainingSet& set, const Schema& schema,
                             const std::vector<std::uint32_t>& fold_of, std::uint64_t seed, int threads);

}  // namespace kscout
