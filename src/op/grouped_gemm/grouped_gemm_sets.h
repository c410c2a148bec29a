#pragma once
/// \file
/// Makes named and random sets of grouped GEMMs.
///
///     auto problems = make_grouped_gemm_set("moe", DType::bf16, {Layout::rcr});
///
/// The same request gives the same problems, in the same order, on every machine.
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <kscout/grouped_gemm.h>

#include "op/generator.h"
#include "op/operation.h"

namespace kscout {

/// How much more often popular experts are chosen than others.
enum class RoutingSkew : std::uint8_t { even, mild, strong };

/// The tokens that each expert gets when every token goes to `each` different experts, drawn at random: with
/// `even`, all are equally likely; with `mild` and `strong`, the likelihood of the expert at place i of a
/// random order is proportional to 1 / (i + experts / 4), and 1 / (i + 1).
std::vector<std::int64_t> routed_tokens(std::int64_t tokens, std::int64_t experts, std::int64_t each,
                                        RoutingSkew skew, Generator& random);

std::span<const ProblemSetInfo> grouped_gemm_sets() noexcept;
/// The problems of a set in these layouts; without `wanted`, in rcr. Throws invalid_argument for an unknown
/// set.
std::vector<GroupedGemmProblem> make_grouped_gemm_set(std::string_view name, DType dtype,
                                                      const std::vector<Layout>& wanted);
/// Random sizes within the request's limits.
std::vector<GroupedGemmProblem> random_grouped_gemms(const TuningRequest& request);

}  // namespace kscout
