#include "backend/cpu/gemm/gemm_plan.h"

#include <algorithm>

#include "backend/cpu/common/planned_launch.h"

namespace kscout::cpu {

namespace {

std::int64_t block_size(std::int32_t asked, std::int64_t all) {
  return std::max<std::int64_t>(1, asked > 0 ? std::min<std::int64_t>(asked, all) : all);
}

/// The ranges of C and K that one part computes.
struct Region {
  Range m, n, k;
  std::int32_t split;
};

Region region_of(const GemmPlan& plan, int part) {
  const NativeConfig& c = plan.config;
  const bool outer = plan.form == NativeForm::outer;
  const int cell = part % (c.threads_m * c.threads_n), split = part / (c.threads_m * c.threads_n);
  const std::int64_t grain_n = outer ? c.nr : plan.form == NativeForm::update ? kLine : 1;
  return {.m = share_of(plan.m, c.threads_m, cell / c.threads_n, outer ? c.mr : 1),
          .n = share_of(plan.n, c.threads_n, cell % c.threads_n, grain_n),
          .k = share_of(plan.k, c.split_k, split, kLine),
          .split = split};
}

/// Sizes of one part's workspace for packed operands.
void size_packs(GemmPlan& plan) {
  const NativeConfig& c = plan.config;
  const std::int64_t lanes = plan.kernels->lanes;
  switch (plan.form) {
    case NativeForm::outer:
      if (c.pack_a) {
        const std::int64_t rows = c.order == NativeOrder::k ? std::max(plan.m, plan.mc) : plan.mc;
        plan.a_size = rows * plan.kc;
      }
      if (c.pack_b) plan.b_size = round_up(plan.nc, std::max<std::int64_t>(c.nr, lanes)) * plan.kc;
      break;
    case NativeForm::dot:
      if (!plan.a.row_major) plan.a_size = plan.mc * plan.kc;
      if (plan.b.row_major) plan.b_size = plan.nc * plan.kc;
      break;
    case NativeForm::update:
      if (c.kind == NativeKind::skinny_m) {
        plan.a_size = plan.k * c.mr;
      } else {
        plan.b_size = plan.k * c.nr;
        plan.c_size = c.nr * round_up(plan.m, kLine) + kLine;
      }
      break;
  }
  plan.a_size = round_up(plan.a_size, kLine);
  plan.b_size = round_up(plan.b_size, kLine);
  plan.c_size = round_up(plan.c_size, kLine);
}

}  // namespace

GemmPlan make_gemm_plan(const GemmProblem& problem, const NativeConfig& config) {
  const LeadingDimensions ld = leading_dimensions(problem);
  GemmPlan plan{};
  plan.m = problem.m;
  plan.n = problem.n;
  plan.k = problem.k;
  plan.batches = problem.batch;
  plan.a = {row_major_a(problem.layout), ld.a, ld.a * (row_major_a(problem.layout) ? problem.m : problem.k)};
  plan.b = {row_major_b(problem.layout), ld.b, ld.b * (row_major_b(problem.layout) ? problem.k : problem.n)};
  plan.ldc = ld.c;
  plan.batch_c = ld.c * problem.m;
  plan.epilogue = problem.epilogue;
  plan.config = config;
  plan.form = native_form(config.kind, problem.layout);
  plan.kernels = kernels_of<GemmKernels>(config.isa);
  // A part needs at most its share of C, rounded up to register tiles; larger blocks are reduced to that.
  const std::int64_t share_m =
      std::min(plan.m, round_up(ceil_div(plan.m, config.threads_m), config.mr) + config.mr);
  const std::int64_t share_n =
      std::min(plan.n, round_up(ceil_div(plan.n, config.threads_n), kLine) + kLine + config.nr);
  const std::int64_t share_k = std::min(plan.k, ceil_div(plan.k, config.split_k) + kLine);
  plan.mc = block_size(config.mc, share_m);
  plan.kc = block_size(config.kc, share_k);
  plan.nc = block_size(config.nc, share_n);
  if (plan.form == NativeForm::outer) {  // whole register tiles in every block but the last
    plan.mc = round_up(plan.mc, config.mr);
    plan.nc = round_up(plan.nc, config.nr);
  }
  size_packs(plan);
  plan.part_size = plan.a_size + plan.b_size + plan.c_size;
  plan.split_size = config.split_k > 1 ? round_up(plan.m * plan.n, kLine) : 0;
  plan.workspace_floats = config.threads() * plan.part_size + (config.split_k - 1) * plan.split_size;
  return plan;
}

void scale(float* c, std::int64_t ldc, std::int64_t m, std::int64_t n, float beta) noexcept {
  if (beta == 1) return;
  for (std::int64_t i = 0; i < m; ++i) {
    float* row = c + i * ldc;
    if (beta == 0) {
      std::fill_n(row, n, 0.0F);
    } else {
      for (std::int64_t j = 0; j < n; ++j) row[j] *= beta;
    }
  }
}

void run_part(const GemmPlan& plan, const GemmBuffers& buffers, float* workspace, int part) noexcept {
  const Region r = region_of(plan, part);
  const std::int64_t m = r.m.begin, n = r.n.begin, k = r.k.begin;
  if (r.m.size() == 0 || r.n.size() == 0) return;
  const std::int64_t a_start = plan.a.row_major ? m * plan.a.ld + k : k * plan.a.ld + m;
  const std::int64_t b_start = plan.b.row_major ? k * plan.b.ld + n : n * plan.b.ld + k;
  Block block{};
  block.m = r.m.size();
  block.n = r.n.size();
  block.k = r.k.size();
  block.alpha = static_cast<float>(buffers.alpha);
  block.workspace = workspace + part * plan.part_size;
  block.n0 = n;
  if (plan.config.split_k == 1) {
    block.epilogue = plan.epilogue;
    if (buffers.bias) block.bias = static_cast<const float*>(buffers.bias) + n;
  }
  float* const partial = workspace + plan.config.threads() * plan.part_size + (r.split - 1) * plan.split_size;
  for (std::int64_t batch = 0; batch < plan.batches; ++batch) {
    block.a = static_cast<const float*>(buffers.a) + batch * plan.a.batch + a_start;
    if (plan.prepacked_b) {
      block.packed_b = static_cast<const float*>(buffers.packed_b) + batch * plan.packed_batch;
    } else {
      block.b = static_cast<const float*>(buffers.b) + batch * plan.b.batch + b_start;
    }
    if (r.split == 0) {
      block.c = static_cast<float*>(buffers.c) + batch * plan.batch_c + m * plan.ldc + n;
      block.ldc = plan.ldc;
      block.beta = static_cast<float>(buffers.beta);
    } else {
      block.c = partial + m * plan.n + n;
      block.ldc = plan.n;
      block.beta = 0;
    }
    run_block(plan, block);
  }
}

void run_block(const GemmPlan& plan, const Block& block) noexcept {
  if (block.k == 0 || block.alpha == 0) {  // as in BLAS: A and B are not read
    scale(block.c, block.ldc, block.m, block.n, block.beta);
    apply_epilogue(plan, block, 0, 0, block.m, block.n);
  } else if (plan.config.kind == NativeKind::small) {
    run_small(plan, block);
  } else if (plan.form == NativeForm::outer) {
    run_outer(plan, block);
  } else if (plan.form == NativeForm::dot) {
    run_dot(plan, block);
  } else {
    run_update(plan, block);
  }
}

void apply_epilogue(const GemmPlan& plan, const Block& block, std::int64_t i, std::int64_t j,
                    std::int64_t rows, std::int64_t columns) noexcept {
  if (block.epilogue == Epilogue::none) return;
  plan.kernels->epilogue[static_cast<std::size_t>(block.epilogue)](
      {.c = block.c + i * block.ldc + j,
       .ldc = block.ldc,
       .m = rows,
       .n = columns,
       .bias = block.bias ? block.bias + j : nullptr});
}

namespace {

/// Adds the partial sums of the slices to rows of C, and applies the epilogue to each row.
void sum_splits(const GemmPlan& plan, const GemmBuffers& buffers, float* workspace, int part) noexcept {
  const int parts = plan.config.threads();
  const float* const partials = workspace + parts * plan.part_size;
  const Range rows = share_of(plan.m, parts, part);
  Block block{};
  block.c = static_cast<float*>(buffers.c);
  block.ldc = plan.ldc;
  block.epilogue = plan.epilogue;
  block.bias = static_cast<const float*>(buffers.bias);
  for (std::int64_t i = rows.begin; i < rows.end; ++i) {
    float* row = block.c + i * plan.ldc;
    for (std::int32_t split = 0; split < plan.config.split_k - 1; ++split) {
      const float* from = partials + split * plan.split_size + i * plan.n;
      for (std::int64_t j = 0; j < plan.n; ++j) row[j] += from[j];
    }
    apply_epilogue(plan, block, i, 0, 1, plan.n);
  }
}

}  // namespace

void run_plan(const GemmPlan& plan, const GemmBuffers& buffers, float* workspace) {
  if (plan.m == 0 || plan.n == 0) return;
  const int parts = plan.config.threads();
  if (plan.config.split_k == 1)
    return run_parts(parts, [&](int part) { run_part(plan, buffers, workspace, part); });
  // The partial sums of split-K must be added up before the next batch item may overwrite them.
  GemmPlan one = plan;
  one.batches = 1;
  GemmBuffers moved = buffers;
  for (std::int64_t batch = 0; batch < plan.batches; ++batch) {
    moved.a = static_cast<const float*>(buffers.a) + batch * plan.a.batch;
    moved.b = static_cast<const float*>(buffers.b) + batch * plan.b.batch;
    moved.c = static_cast<float*>(buffers.c) + batch * plan.batch_c;
    run_parts(parts, [&](int part) { run_part(one, moved, workspace, part); });
    run_parts(parts, [&](int part) { sum_splits(one, moved, workspace, part); });
  }
}

}  // namespace kscout::cpu
