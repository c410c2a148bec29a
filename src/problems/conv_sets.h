#pragma once
/// \file
/// Sets of convolutions, among them those that the public CK Tile models were trained and validated on.
///
///     const auto problems = make_conv_set("ck_conv_train_fwd", DType::bf16);
#include <span>
#include <string_view>
#include <vector>

#include "problems/problem_sets.h"

namespace kscout {

/// The sets that make_conv_set knows.
std::span<const ProblemSetInfo> conv_sets() noexcept;

/// Distinct problems in the order of the set's definition. Throws invalid_argument naming the nearest set.
std::vector<ConvProblem> make_conv_set(std::string_view name, DType dtype);

/// The same with the repetitions that the definition has: what upstream's totals count.
std::vector<ConvProblem> repeated_conv_set(std::string_view name, DType dtype);

}  // namespace kscout
