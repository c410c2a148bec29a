#pragma once
/// \file
/// Plans one config for one grouped GEMM: products of all threads, or pieces of work that threads take from
/// a list.
///
///     const GroupedPlan plan = make_grouped_plan(problem, config);
///     run_plan(plan, buffers, workspace);
#include <cstdint>
#include <vector>

#include <kscout/grouped_gemm.h>

#include "backend/cpu/gemm/gemm_plan.h"
#include "provider/native/native_grouped.h"

namespace kscout::cpu {

struct GroupedPlan {
  /// A group with rows, computed by all threads. Positions are in elements.
  struct Product {
    GemmPlan plan;
    std::int64_t a_at, b_at, c_at;
  };
  /// A block of one group's C, computed by one thread.
  struct Piece {
    std::int64_t a_at, b_at, c_at;
    std::int64_t m, n;
  };

  NativeGroupedConfig config;
  std::vector<Product> products;  ///< schedule `each`
  std::vector<Piece> pieces;      ///< other schedules, in the order in which threads take them
  GemmPlan piece = {};            ///< of the largest piece
  std::int64_t workspace_floats = 0;
  static constexpr std::int64_t kept_floats = 0;
};

GroupedPlan make_grouped_plan(const GroupedGemmProblem& problem, const NativeGroupedConfig& config);
void run_plan(const GroupedPlan& plan, const GemmBuffers& buffers, float* workspace);
/// No operand is packed once.
inline void pack_part(const GroupedPlan&, const float*, float*, int) noexcept {}

}  // namespace kscout::cpu
