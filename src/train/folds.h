#pragma once
/// \file
/// Splits for cross-validation that keep groups together (problems/problem_sets.h), so that a fold is judged
/// on sizes, or shapes of weights, never seen in training.
#include <cstdint>
#include <span>
#include <vector>

#include <kscout/any_problem.h>

#include "problems/problem_sets.h"

namespace kscout {

/// The fold of each problem. `rows` counts rows per problem: what a group weighs. The heaviest
/// group goes first, to the lightest fold; equals go by size and by fold number, so the split is a function
/// of its input. Throws invalid_argument when folds < 2 or there are fewer groups than folds.
std::vector<std::uint32_t> group_k_fold(std::span<const Problem> problems,
                                        std::span<const std::uint32_t> rows, std::uint32_t folds,
                                        SplitBy by = SplitBy::sizes);

}  // namespace kscout
