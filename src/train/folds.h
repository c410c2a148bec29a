#pragma once
/// \file
/// Splits for cross-validation that keep problems of one size together (layouts of one size share a fold), so
/// that a fold is judged on sizes never seen in training.
#include <cstdint>
#include <span>
#include <vector>

#include <kscout/problem.h>

namespace kscout {

/// The fold of each problem. Groups are (m, n, k, batch); `weights` counts rows per problem. The heaviest
/// group goes first, to the lightest fold; equals go by size and by fold number, so the split is a function
/// of its input. Throws invalid_argument when folds < 2 or there are fewer groups than folds.
std::vector<std::uint32_t> group_k_fold(std::span<const GemmProblem> problems,
                                        std::span<const std::uint32_t> weights, std::uint32_t folds);

}  // namespace kscout
