#include "backend/cpu/gemm/grouped_plan.h"

#include <algorithm>
#include <atomic>

#include "backend/cpu/common/planned_launch.h"

namespace kscout::cpu {

namespace {

/// Adds the pieces of one group: those of the same columns follow each other, because they read the same B.
void add_pieces(GroupedPlan& plan, const GroupedGemmProblem& p, const GroupedPlan::Piece& group,
                std::int64_t rows, std::int64_t columns) {
  for (std::int64_t j = 0; j < p.n; j += columns) {
    for (std::int64_t i = 0; i < group.m; i += rows) {
      plan.pieces.push_back({.a_at = group.a_at + i * p.k,
                             .b_at = group.b_at + j * (row_major_b(p.layout) ? 1 : p.k),
                             .c_at = group.c_at + i * p.n + j,
                             .m = std::min(rows, group.m - i),
                             .n = std::min(columns, p.n - j)});
    }
  }
}

}  // namespace

GroupedPlan make_grouped_plan(const GroupedGemmProblem& p, const NativeGroupedConfig& config) {
  GroupedPlan plan{.config = config, .products = {}, .pieces = {}};
  if (p.m_sum == 0 || p.n == 0) return plan;
  GemmProblem one = make_gemm(0, p.n, p.k, DType::fp32, p.layout);
  one.lda = p.k;
  one.ldb = row_major_b(p.layout) ? p.n : p.k;
  one.ldc = p.n;
  const bool pieces = config.schedule == GroupedSchedule::pieces;
  const std::int64_t rows = pieces && config.piece_m > 0 ? config.piece_m : p.m_max;
  const std::int64_t columns = pieces && config.piece_n > 0 ? config.piece_n : p.n;
  GroupedPlan::Piece group{};
  for (const std::int64_t m : p.m.sizes()) {
    group.m = m;
    if (m > 0 && config.schedule == GroupedSchedule::each) {
      one.m = m;
      plan.products.push_back({make_gemm_plan(one, config.product()), group.a_at, group.b_at, group.c_at});
      plan.workspace_floats = std::max(plan.workspace_floats, plan.products.back().plan.workspace_floats);
    } else if (m > 0) {
      add_pieces(plan, p, group, rows, columns);
    }
    group.a_at += m * p.k;
    group.b_at += p.n * p.k;
    group.c_at += m * p.n;
  }
  if (config.schedule == GroupedSchedule::each) return plan;
  one.m = std::min(rows, p.m_max);
  one.n = std::min(columns, p.n);
  plan.piece = make_gemm_plan(one, config.product());
  plan.workspace_floats = config.threads() * plan.piece.part_size;
  // With the largest groups first, no thread is left with a large one while others have finished.
  if (config.schedule == GroupedSchedule::groups)
    std::ranges::stable_sort(plan.pieces, std::ranges::greater{}, &GroupedPlan::Piece::m);
  return plan;
}

namespace {

/// The buffers of one product.
GemmBuffers operands_of(const GroupedPlan::Product& product, const GemmBuffers& buffers) noexcept {
  GemmBuffers moved = buffers;
  moved.a = static_cast<const float*>(buffers.a) + product.a_at;
  moved.b = static_cast<const float*>(buffers.b) + product.b_at;
  moved.c = static_cast<float*>(buffers.c) + product.c_at;
  return moved;
}

/// Computes pieces from `next` on until none is left. `part`: number of the thread, for its workspace.
void run_pieces(const GroupedPlan& plan, const GemmBuffers& buffers, float* workspace, int part,
                std::atomic<std::size_t>& next) noexcept {
  Block block{};
  block.k = plan.piece.k;
  block.ldc = plan.piece.ldc;
  block.alpha = static_cast<float>(buffers.alpha);
  block.beta = static_cast<float>(buffers.beta);
  block.workspace = workspace + part * plan.piece.part_size;
  for (std::size_t at; (at = next.fetch_add(1, std::memory_order_relaxed)) < plan.pieces.size();) {
    const GroupedPlan::Piece& piece = plan.pieces[at];
    block.a = static_cast<const float*>(buffers.a) + piece.a_at;
    block.b = static_cast<const float*>(buffers.b) + piece.b_at;
    block.c = static_cast<float*>(buffers.c) + piece.c_at;
    block.m = piece.m;
    block.n = piece.n;
    run_block(plan.piece, block);
  }
}

}  // namespace

void run_plan(const GroupedPlan& plan, const GemmBuffers& buffers, float* workspace) {
  const int parts = plan.config.threads();
  for (const GroupedPlan::Product& product : plan.products) {
    const GemmBuffers moved = operands_of(product, buffers);
    run_parts(parts, [&](int part) { run_part(product.plan, moved, workspace, part); });
  }
  if (plan.pieces.empty()) return;
  std::atomic<std::size_t> next{0};
  run_parts(parts, [&](int part) { run_pieces(plan, buffers, workspace, part, next); });
}

}  // namespace kscout::cpu
