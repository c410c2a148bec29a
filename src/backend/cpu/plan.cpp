#include "backend/cpu/plan.h"

#include <algorithm>

#include "backend/cpu/kernels/kernels.h"

namespace kscout::cpu {

namespace {

constexpr std::int64_t kLine = 16;  ///< floats per cache line

std::int64_t block_size(std::int32_t asked, std::int64_t all) {
  return std::max<std::int64_t>(1, asked > 0 ? std::min<std::int64_t>(asked, all) : all);
}

/// Bounds of share `i` out of `shares` of `size`, at multiples of `grain`.
void share(std::int64_t size, std::int64_t shares, std::int64_t i, std::int64_t grain, std::int64_t& begin,
           std::int64_t& end) {
  const std::int64_t grains = ceil_div(size, grain);
  begin = std::min(size, grains * i / shares * grain);
  end = std::min(size, grains * (i + 1) / shares * grain);
}

/// Sizes of one part's workspace for packed operands.
void size_packs(Plan& plan) {
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
        plan.c_size = c.nr * round_up(plan.m, kLine);
      }
      break;
  }
  plan.a_size = round_up(plan.a_size, kLine);
  plan.b_size = round_up(plan.b_size, kLine);
  plan.c_size = round_up(plan.c_size, kLine);
}

}  // namespace

Plan make_plan(const GemmProblem& problem, const NativeConfig& config, const KernelSet& kernels) {
  const LeadingDimensions ld = leading_dimensions(problem);
  Plan plan{};
  plan.m = problem.m;
  plan.n = problem.n;
  plan.k = problem.k;
  plan.batches = problem.batch;
  plan.a = {row_major_a(problem.layout), ld.a, ld.a * (row_major_a(problem.layout) ? problem.m : problem.k)};
  plan.b = {row_major_b(problem.layout), ld.b, ld.b * (row_major_b(problem.layout) ? problem.k : problem.n)};
  plan.ldc = ld.c;
  plan.batch_c = ld.c * problem.m;
  plan.config = config;
  plan.form = native_form(config.kind, problem.layout);
  plan.kernels = &kernels;
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

Region region_of(const Plan& plan, int part) noexcept {
  const NativeConfig& c = plan.config;
  Region r{};
  r.split = part / (c.threads_m * c.threads_n);
  const int cell = part % (c.threads_m * c.threads_n);
  const std::int64_t grain_n = plan.form == NativeForm::outer    ? c.nr
                               : plan.form == NativeForm::update ? kLine
                                                                 : 1;
  share(plan.m, c.threads_m, cell / c.threads_n, plan.form == NativeForm::outer ? c.mr : 1, r.m0, r.m1);
  share(plan.n, c.threads_n, cell % c.threads_n, grain_n, r.n0, r.n1);
  share(plan.k, c.split_k, r.split, kLine, r.k0, r.k1);
  return r;
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

void run_part(const Plan& plan, const GemmBuffers& buffers, float* workspace, int part) noexcept {
  const Region r = region_of(plan, part);
  if (r.m0 == r.m1 || r.n0 == r.n1) return;
  const std::int64_t a_start = plan.a.row_major ? r.m0 * plan.a.ld + r.k0 : r.k0 * plan.a.ld + r.m0;
  const std::int64_t b_start = plan.b.row_major ? r.k0 * plan.b.ld + r.n0 : r.n0 * plan.b.ld + r.k0;
  Block block{};
  block.m = r.m1 - r.m0;
  block.n = r.n1 - r.n0;
  block.k = r.k1 - r.k0;
  block.alpha = static_cast<float>(buffers.alpha);
  block.workspace = workspace + part * plan.part_size;
  block.n0 = r.n0;
  float* const partial = workspace + plan.config.threads() * plan.part_size + (r.split - 1) * plan.split_size;
  for (std::int64_t batch = 0; batch < plan.batches; ++batch) {
    block.a = static_cast<const float*>(buffers.a) + batch * plan.a.batch + a_start;
    if (plan.prepacked_b) {
      block.packed_b = static_cast<const float*>(buffers.packed_b) + batch * plan.packed_batch;
    } else {
      block.b = static_cast<const float*>(buffers.b) + batch * plan.b.batch + b_start;
    }
    if (r.split == 0) {
      block.c = static_cast<float*>(buffers.c) + batch * plan.batch_c + r.m0 * plan.ldc + r.n0;
      block.ldc = plan.ldc;
      block.beta = static_cast<float>(buffers.beta);
    } else {
      block.c = partial + r.m0 * plan.n + r.n0;
      block.ldc = plan.n;
      block.beta = 0;
    }
    run_block(plan, block);
  }
}

void run_block(const Plan& plan, const Block& block) noexcept {
  if (block.k == 0) {
    scale(block.c, block.ldc, block.m, block.n, block.beta);
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

void sum_splits(const Plan& plan, const GemmBuffers& buffers, float* workspace, int part) noexcept {
  const std::int64_t parts = plan.config.threads();
  const float* const partials = workspace + parts * plan.part_size;
  for (std::int64_t i = plan.m * part / parts; i < plan.m * (part + 1) / parts; ++i) {
    float* row = static_cast<float*>(buffers.c) + i * plan.ldc;
    for (std::int32_t split = 0; split < plan.config.split_k - 1; ++split) {
      const float* from = partials + split * plan.split_size + i * plan.n;
      for (std::int64_t j = 0; j < plan.n; ++j) row[j] += from[j];
    }
  }
}

namespace {

using Fill = void (*)(KernelSet&);

KernelSet filled(Fill outer, Fill stream) {
  KernelSet set;
  outer(set);
  stream(set);
  return set;
}

}  // namespace

const KernelSet* kernel_set(NativeIsa isa) noexcept {
  // The fill functions are compiled for their instruction set too, so each runs only for a requested set.
  switch (isa) {
    case NativeIsa::scalar: {
      static const KernelSet set = filled(fill_outer_scalar, fill_stream_scalar);
      return &set;
    }
#if defined(__x86_64__)
    case NativeIsa::avx2: {
      static const KernelSet set = filled(fill_outer_avx2, fill_stream_avx2);
      return &set;
    }
    case NativeIsa::avx512: {
      static const KernelSet set = filled(fill_outer_avx512, fill_stream_avx512);
      return &set;
    }
#endif
    default:
      return nullptr;
  }
}

}  // namespace kscout::cpu
