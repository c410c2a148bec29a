#pragma once
/// \file
/// What a target asks LightGBM to learn: labels, weights, and what a score means in TFLOPS.
#include <vector>

#include "select/model.h"
#include "train/training_set.h"

namespace kscout {

/// Relative speeds below this count as equally hopeless: the forest need not tell 1/20 from 1/50.
inline constexpr double kLeastRelative = 0.05;
/// Grades of the rank target; grade g means about g / kMostRank of the best speed, squared to stress the top.
inline constexpr int kMostRank = 30;

/// One label per row. Failed rows get the worst value of the target.
std::vector<float> labels_of(const TrainingSet& set, Target target);

/// One weight per row. Rows near the best of their problem count more: they decide the choice.
std::vector<float> weights_of(const TrainingSet& set, double near_best_weight);

/// LightGBM's objective for a target.
std::string objective_of(Target target);

}  // namespace kscout
