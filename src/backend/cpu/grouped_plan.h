#pragma once
/// \file
/// Plans one config for one grouped GEMM: products of all threads, or pieces of work that threads take from
/// a list.
///
///     const GroupedPlan plan = make_grouped_plan(problem, config, kernels);
///     for (const auto& product : plan.products) ...            // run_part(product.plan, ...), for every part
///     std::atomic<std::size_t> next{0};
///     run_pieces(plan, buffers, workspace, part, next);        // for every part; parts may run at once
#include <atomic>
#include <cstdint>
#include <vector>

#include <kscout/grouped_gemm.h>

#include "backend/cpu/plan.h"
#include "provider/native/native_grouped.h"

namespace kscout::cpu {

struct GroupedPlan {
  /// A group with rows, computed by all threads. Positions are in elements.
  struct Product {
    Plan plan;
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
  Plan piece = {};                ///< of the largest piece
  std::int64_t workspace_floats = 0;
};

GroupedPlan make_grouped_plan(const GroupedGemmProblem& problem, const NativeGroupedConfig& config,
                              const KernelSet& kernels);
/// The buffers of one product.
GemmBuffers operands_of(const GroupedPlan::Product& product, const GemmBuffers& buffers) noexcept;
/// Computes pieces from `next` on until none is left. `part`: number of the thread, for its workspace.
void run_pieces(const GroupedPlan& plan, const GemmBuffers& buffers, float* workspace, int part,
                std::atomic<std::size_t>& next) noexcept;

}  // namespace kscout::cpu
