#pragma once
/// \file
/// Plans one config for one problem: parts for threads, blocks, kernels, workspace.
///
///     const GemmPlan plan = make_gemm_plan(problem, config);
///     run_plan(plan, buffers, workspace);
#include <cstdint>

#include <kscout/launch.h>

#include "backend/cpu/common/range.h"
#include "backend/cpu/gemm/gemm_kernels.h"

namespace kscout::cpu {

/// A stored matrix: element (line, along) is data[line * ld + along]; batches are `batch` elements apart.
struct Operand {
  bool row_major;
  std::int64_t ld;
  std::int64_t batch;
};

struct GemmPlan {
  std::int64_t m, n, k, batches;
  Operand a, b;
  std::int64_t ldc, batch_c;
  Epilogue epilogue;
  NativeConfig config;
  NativeForm form;
  const GemmKernels* kernels;
  std::int64_t mc, kc, nc;  ///< block sizes, limited by the problem, at least 1
  // Workspace, in floats. Each part owns part_size elements from part * part_size. They contain:
  std::int64_t a_size;     ///< packed A, at 0
  std::int64_t b_size;     ///< packed B, at a_size
  std::int64_t c_size;     ///< partial C of a row update across rows of C, after packed B
  std::int64_t part_size;  ///< multiple of 16 elements
  /// One partial C of split-K; split s > 0 is at parts * part_size + (s - 1) * split_size.
  std::int64_t split_size;
  std::int64_t workspace_floats;
  /// B is packed once, by pack_part, for all runs. In floats: a line of K in all packed columns, and one
  /// batch item.
  bool prepacked_b;
  std::int64_t packed_width, packed_batch;
  std::int64_t kept_floats;  ///< of all batch items
};

GemmPlan make_gemm_plan(const GemmProblem& problem, const NativeConfig& config);
/// Computes the product with all threads.
void run_plan(const GemmPlan& plan, const GemmBuffers& buffers, float* workspace);
/// Computes what one thread does, without the sum of split-K slices.
void run_part(const GemmPlan& plan, const GemmBuffers& buffers, float* workspace, int part) noexcept;
/// Packs this part's share of B's columns, for `prepacked_b`.
void pack_part(const GemmPlan& plan, const float* b, float* packed, int part) noexcept;

/// Operands of one batch item and region, as pointers to their first elements.
/// C = epilogue(alpha * A * B + beta * C).
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
  Epilogue epilogue;      ///< none where other slices of a split K follow
  const float* bias;      ///< of the region's first column; null without one
};
/// Computes a block by the plan's kernels, of any kind; `k` may be 0.
void run_block(const GemmPlan& plan, const Block& block) noexcept;
void run_outer(const GemmPlan& plan, const Block& block) noexcept;
void run_small(const GemmPlan& plan, const Block& block) noexcept;
void run_dot(const GemmPlan& plan, const Block& block) noexcept;
void run_update(const GemmPlan& plan, const Block& block) noexcept;

/// Applies the block's epilogue to its elements of C in rows x columns from (i, j), which are finished but
/// for that.
void apply_epilogue(const GemmPlan& plan, const Block& block, std::int64_t i, std::int64_t j,
                    std::int64_t rows, std::int64_t columns) noexcept;

/// Computes C = beta * C; does not read C when beta is 0.
void scale(float* c, std::int64_t ldc, std::int64_t m, std::int64_t n, float beta) noexcept;

}  // namespace kscout::cpu
