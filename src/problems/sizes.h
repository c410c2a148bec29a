#pragma once
/// \file
/// Problem sets before element types and layouts are applied.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "problems/problem_sets.h"

namespace kscout {

struct Sizes {
  std::int64_t m, n, k;
  double weight = 1;
};

std::vector<Sizes> ck_benchmark_sizes();
std::vector<Sizes> ck_wide_sizes();
std::vector<Sizes> ck_edge_sizes();
std::vector<Sizes> smoke_sizes();

/// Throws invalid_argument naming the nearest model.
std::vector<Sizes> llm_sizes(const std::vector<std::string>& models);

/// Draws request.count distinct sizes that `admits` takes. Throws invalid_argument when the bounds make no
/// sense or hold too few.
std::vector<Sizes> random_sizes(const ProblemSetRequest& request,
                                const std::function<bool(const Sizes&)>& admits);

}  // namespace kscout
