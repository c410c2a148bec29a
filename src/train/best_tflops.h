#pragma once
/// \file
/// The small forest that says how fast the best config of a problem is: it turns relative scores into time.
#include <cstdint>
#include <vector>

#include "features/schema.h"
#include "forest/forest.h"
#include "train/training_set.h"

namespace kscout {

struct BestTflops {
  Forest forest;                        ///< ln TFLOPS from the features below
  std::vector<std::uint32_t> features;  ///< positions in the schema: those that depend on the problem only
  std::vector<double> out_of_fold;      ///< ln TFLOPS per problem of the set
  double r2 = 0;                        ///< of out_of_fold
};

BestTflops train_best_tflops(const TrainingSet& set, const Schema& schema,
                             const std::vector<std::uint32_t>& fold_of, std::uint64_t seed, int threads);

}  // namespace kscout
