#pragma once
/// \file
/// Plans one config for one problem: parts for threads, blocks, kernels, workspace.
///
///     const Plan plan = make_plan(problem, config, kernels);
///     run_part(plan, buffers, workspace, part);        // for every part; parts may run at once
///     sum_splits(plan, buffers, workspace, part);      // then, when plan.split_k > 1
#include <cstdint>

#include <kscout/backend.h>

#include "backend/cpu/kernels/kernels.h"

namespace kscout::cpu {

/// A stored matrix: element (line, along) is data[line * ld + along]; batches are `batch` elements apart.
struct Operand {
  bool row_major;
  std::int64_t ld;
  std::int64_t batch;
};

struct Plan {
  std::int64_t m, n, k, batches;
  Operand a, b;
  std::int64_t ldc, batch_c;
  NativeConfig config;
  NativeForm form;
  const KernelSet* kernels;
  std::int64_t mc, kc, nc;  ///< block sizes, limited by the problem, at least 1
  // Workspace, in floats. Each part owns part_size elements from part * part_size. They contain:
  std::int64_t a_size;     ///< packed A, at 0
  std::int64_t b_size;     ///< packed B, at a_size
  std::int64_t c_size;     ///< partial C of a row update across rows of C, after packed B
  std::int64_t part_size;  ///< multiple of 16 elements
  /// One partial C of split-K; split s > 0 is at parts * part_size + (s - 1) * split_size.
  std::int64_t split_size;
  std::int64_t workspace_floats;
  /// B is packed once, by pack_b, for all runs. In floats: a line of K in all packed columns, and one batch
  /// item.
  bool prepacked_b;
  std::int64_t packed_width, packed_batch;
};

/// The ranges of C and K that one part computes.
struct Region {
  std::int64_t m0, m1, n0, n1, k0, k1;
  std::int32_t split;
};

Plan make_plan(const GemmProblem& problem, const NativeConfig& config, const KernelSet& kernels);
Region region_of(const Plan& plan, int part) noexcept;
void run_part(const Plan& plan, const GemmBuffers& buffers, float* workspace, int part) noexcept;
/// Packs this part's share of B's columns, for `prepacked_b`.
void pack_b(const Plan& plan, const float* b, float* packed, int part) noexcept;
void sum_splits(const Plan& plan, const GemmBuffers& buffers, float* workspace, int part) noexcept;

/// Operands of one batch item and region, as pointers to their first elements. C = alpha * A * B + beta * C.
struct Block {
  const float* a;
  const float* b;
  float* c;
  std::int64_t ldc;
  std::int64_t m, n, k;
  float alpha, beta;
  float* workspace;
  const float* packed_b;  ///< `prepacked_b`: B of the batch item, all columns
  std::int64_t n0;        ///< first column of the region
};
/// Computes a block by the plan's kernels, of any kind; `k` may be 0.
void run_block(const Plan& plan, const Block& block) noexcept;
void run_outer(const Plan& plan, const Block& block) noexcept;
void run_small(const Plan& plan, const Block& block) noexcept;
void run_dot(const Plan& plan, const Block& block) noexcept;
void run_update(const Plan& plan, const Block& block) noexcept;

/// Computes C = beta * C; does not read C when beta is 0.
void scale(float* c, std::int64_t ldc, std::int64_t m, std::int64_t n, float beta) noexcept;

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) noexcept { return (a + b - 1) / b; }
constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) noexcept { return ceil_div(a, b) * b; }

}  // namespace kscout::cpu
