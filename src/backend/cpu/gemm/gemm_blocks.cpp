/// \file
/// Walks one part of C in blocks and calls the inner loops. Contains no SIMD: it uses function tables only.
#include <algorithm>

#include "backend/cpu/gemm/gemm_plan.h"

namespace kscout::cpu {

namespace {

/// Panels of mr rows; the last panel's groups are as long as its rows.
void pack_a_block(const GemmPlan& plan, const float* a, std::int64_t rows, std::int64_t k, float* dst) {
  const PackKernel pack = plan.a.row_major ? plan.kernels->pack_lines : plan.kernels->pack_groups;
  pack({a, plan.a.ld, rows, k, dst, plan.config.mr, false});
}

/// Panels of nr columns; the last panel's groups are padded to whole vectors.
void pack_b_block(const GemmPlan& plan, const float* b, std::int64_t columns, std::int64_t k, float* dst) {
  const PackKernel pack = plan.b.row_major ? plan.kernels->pack_groups : plan.kernels->pack_lines;
  pack({b, plan.b.ld, columns, k, dst, plan.config.nr, true});
}

/// The operands of one cache block: packed panels, or the caller's memory.
struct Panels {
  const float* a;
  bool a_packed;
  const float* b;
  bool b_packed;
};

/// Computes one cache block of C: all its register tiles.
class Tiles {
 public:
  Tiles(const GemmPlan& plan, const Panels& panels, float* c, std::int64_t ldc, std::int64_t k, float alpha,
        float beta)
      : plan_(plan), panels_(panels), c_(c) {
    args_.ldc = ldc;
    args_.k = k;
    args_.alpha = alpha;
    args_.beta = beta;
    args_.prefetch = plan.config.prefetch;
    read_ = !panels.a_packed && plan.a.row_major ? ReadA::rows : ReadA::columns;
  }

  /// Lets each tile apply the block's epilogue: these are the last steps along K. (i, j): where in the block
  /// the first tile is.
  void finish(const Block& block, std::int64_t i, std::int64_t j) {
    if (block.epilogue == Epilogue::none) return;
    finished_ = &block;
    first_i_ = i;
    first_j_ = j;
  }

  void run(std::int64_t rows, std::int64_t columns, bool rows_outside) {
    const std::int64_t mr = plan_.config.mr, nr = plan_.config.nr;
    const std::int64_t first = -columns_behind_boundary(columns);
    if (rows_outside) {
      for (std::int64_t i = 0; i < rows; i += mr) {
        for (std::int64_t j = first; j < columns; j += nr) tile(i, j, rows, columns);
      }
    } else {
      for (std::int64_t j = first; j < columns; j += nr) {
        for (std::int64_t i = 0; i < rows; i += mr) tile(i, j, rows, columns);
      }
    }
  }

 private:
  /// Columns that the first tile is narrower by, so that vectors of the others lie on vector boundaries in
  /// the rows of B. A column's sum is the same in every tile, so that results do not depend on addresses.
  std::int64_t columns_behind_boundary(std::int64_t columns) const {
    const std::int64_t lanes = plan_.kernels->lanes;
    const bool worth = !panels_.b_packed && plan_.b.ld % lanes == 0 && columns >= 8 * plan_.config.nr;
    return worth ? floats_behind_line(panels_.b) % lanes : 0;
  }

  /// Computes the part of a tile that lies in the block; `begin` may be before its first column.
  void tile(std::int64_t i, std::int64_t begin, std::int64_t rows, std::int64_t columns) {
    const NativeConfig& config = plan_.config;
    const std::int64_t j = std::max<std::int64_t>(begin, 0);
    const std::int64_t height = std::min<std::int64_t>(config.mr, rows - i);
    const std::int64_t width = std::min<std::int64_t>(begin + config.nr, columns) - j;
    const std::int64_t lanes = plan_.kernels->lanes;
    if (panels_.a_packed) {
      args_.a = panels_.a + i * args_.k;
      args_.a_step = height;
    } else {
      args_.a = panels_.a + i * (plan_.a.row_major ? plan_.a.ld : 1);
      args_.a_step = plan_.a.ld;
    }
    if (panels_.b_packed) {
      args_.b = panels_.b + j * args_.k;
      args_.b_step = width == config.nr ? width : round_up(width, lanes);
    } else {
      args_.b = panels_.b + j;
      args_.b_step = plan_.b.ld;
    }
    args_.c = c_ + i * args_.ldc + j;
    const std::int64_t vectors = ceil_div(width, lanes);
    const std::int64_t last = width - (vectors - 1) * lanes;
    args_.last = static_cast<std::int32_t>(last);
    const Variant variant = last != lanes         ? Variant::masked
                            : config.prefetch > 0 ? Variant::prefetching
                                                  : Variant::plain;
    plan_.kernels->outer[static_cast<int>(read_)][static_cast<int>(variant)][height][vectors](args_);
    if (finished_) apply_epilogue(plan_, *finished_, first_i_ + i, first_j_ + j, height, width);
  }

  const GemmPlan& plan_;
  Panels panels_;
  float* c_;
  OuterArgs args_{};
  ReadA read_;
  const Block* finished_ = nullptr;
  std::int64_t first_i_ = 0, first_j_ = 0;
};

/// Walks cache blocks in the config's order; packs the operands that the config packs, as rarely as the order
/// allows.
class OuterWalk {
 public:
  OuterWalk(const GemmPlan& plan, const Block& block)
      : plan_(plan), block_(block), packed_a_(block.workspace), packed_b_(block.workspace + plan.a_size) {}

  void run() {
    switch (plan_.config.order) {
      case NativeOrder::n:
        for (std::int64_t j = 0; j < block_.n; j += plan_.nc) {
          for (std::int64_t p = 0; p < block_.k; p += plan_.kc) {
            take_b(j, p);
            for (std::int64_t i = 0; i < block_.m; i += plan_.mc) {
              take_a(i, p, plan_.mc);
              tiles(i, j, p, panels_, false);
            }
          }
        }
        break;
      case NativeOrder::m:
        for (std::int64_t i = 0; i < block_.m; i += plan_.mc) {
          for (std::int64_t p = 0; p < block_.k; p += plan_.kc) {
            take_a(i, p, plan_.mc);
            for (std::int64_t j = 0; j < block_.n; j += plan_.nc) {
              take_b(j, p);
              tiles(i, j, p, panels_, true);
            }
          }
        }
        break;
      case NativeOrder::k:
        for (std::int64_t p = 0; p < block_.k; p += plan_.kc) {
          take_a(0, p, block_.m);
          for (std::int64_t j = 0; j < block_.n; j += plan_.nc) {
            take_b(j, p);
            for (std::int64_t i = 0; i < block_.m; i += plan_.mc) {
              Panels inner = panels_;
              inner.a += i * (panels_.a_packed    ? std::min(plan_.kc, block_.k - p)
                              : plan_.a.row_major ? plan_.a.ld
                                                  : 1);
              tiles(i, j, p, inner, false);
            }
          }
        }
        break;
    }
  }

 private:
  void take_a(std::int64_t i, std::int64_t p, std::int64_t rows) {
    const float* a = block_.a + (plan_.a.row_major ? i * plan_.a.ld + p : p * plan_.a.ld + i);
    panels_.a_packed = plan_.config.pack_a;
    panels_.a = plan_.config.pack_a ? packed_a_ : a;
    if (plan_.config.pack_a) {
      pack_a_block(plan_, a, std::min(rows, block_.m - i), std::min(plan_.kc, block_.k - p), packed_a_);
    }
  }
  void take_b(std::int64_t j, std::int64_t p) {
    if (plan_.prepacked_b) {
      const std::int64_t lines = std::min(plan_.kc, block_.k - p);
      panels_.b_packed = true;
      panels_.b = block_.packed_b + p * plan_.packed_width + (block_.n0 + j) * lines;
      return;
    }
    const float* b = block_.b + (plan_.b.row_major ? p * plan_.b.ld + j : j * plan_.b.ld + p);
    panels_.b_packed = plan_.config.pack_b;
    panels_.b = plan_.config.pack_b ? packed_b_ : b;
    if (plan_.config.pack_b) {
      pack_b_block(plan_, b, std::min(plan_.nc, block_.n - j), std::min(plan_.kc, block_.k - p), packed_b_);
    }
  }
  void tiles(std::int64_t i, std::int64_t j, std::int64_t p, const Panels& panels, bool rows_outside) {
    Tiles tiles(plan_, panels, block_.c + i * block_.ldc + j, block_.ldc, std::min(plan_.kc, block_.k - p),
                block_.alpha, p == 0 ? block_.beta : 1.0F);
    if (p + plan_.kc >= block_.k) tiles.finish(block_, i, j);
    tiles.run(std::min(plan_.mc, block_.m - i), std::min(plan_.nc, block_.n - j), rows_outside);
  }

  const GemmPlan& plan_;
  const Block& block_;
  float* packed_a_;
  float* packed_b_;
  Panels panels_{};
};

/// Copies columns of a matrix stored across K into lines along K.
void copy_along_k(const float* src, std::int64_t ld, std::int64_t lines, std::int64_t k, float* dst) {
  for (std::int64_t line = 0; line < lines; ++line) {
    for (std::int64_t p = 0; p < k; ++p) dst[line * k + p] = src[p * ld + line];
  }
}

}  // namespace

void pack_part(const GemmPlan& plan, const float* b, float* packed, int part) noexcept {
  // For each cache block along K, all panels of nr columns: the panels of a part or block follow each other.
  const auto [first, last] = share_of(plan.n, plan.config.threads(), part, plan.config.nr);
  if (first >= last) return;
  for (std::int64_t batch = 0; batch < plan.batches; ++batch) {
    const float* const from = b + batch * plan.b.batch + first * (plan.b.row_major ? 1 : plan.b.ld);
    float* const to = packed + batch * plan.packed_batch;
    for (std::int64_t p = 0; p < plan.k; p += plan.kc) {
      const std::int64_t lines = std::min(plan.kc, plan.k - p);
      pack_b_block(plan, from + p * (plan.b.row_major ? plan.b.ld : 1), last - first, lines,
                   to + p * plan.packed_width + first * lines);
    }
  }
}

void run_outer(const GemmPlan& plan, const Block& block) noexcept { OuterWalk(plan, block).run(); }

void run_small(const GemmPlan& plan, const Block& block) noexcept {
  Panels panels{block.a, false, block.b, plan.config.pack_b};
  if (plan.config.pack_b) {
    pack_b_block(plan, block.b, block.n, block.k, block.workspace);
    panels.b = block.workspace;
  }
  Tiles tiles(plan, panels, block.c, block.ldc, block.k, block.alpha, block.beta);
  tiles.finish(block, 0, 0);
  tiles.run(block.m, block.n, plan.config.order == NativeOrder::m);
}

namespace {

/// Floats that all lines of an operand begin behind a cache line; 0 where they differ, and for tiles of so
/// few lines that they wait for memory and not for loads.
std::int64_t floats_behind_line(const float* lines, std::int64_t ld, std::int64_t of_tile) {
  return ld % kLine == 0 && of_tile >= 3 ? cpu::floats_behind_line(lines) : 0;
}

}  // namespace

void run_dot(const GemmPlan& plan, const Block& block) noexcept {
  const std::int64_t mr = plan.config.mr, nr = plan.config.nr;
  float* const packed_a = block.workspace;
  float* const packed_b = block.workspace + plan.a_size;
  const bool rows_outside = plan.config.order == NativeOrder::m;
  const auto& kernels = plan.kernels->dot[plan.config.prefetch > 0];
  DotArgs args{};
  args.ldc = block.ldc;
  args.alpha = block.alpha;
  args.prefetch = plan.config.prefetch;
  for (std::int64_t p = 0; p < block.k; p += plan.kc) {
    args.k = std::min(plan.kc, block.k - p);
    args.beta = p == 0 ? block.beta : 1.0F;
    for (std::int64_t jc = 0; jc < block.n; jc += plan.nc) {
      const std::int64_t columns = std::min(plan.nc, block.n - jc);
      const float* b = block.b + jc * plan.b.ld + p;
      args.ldb = plan.b.ld;
      if (plan.b.row_major) {
        copy_along_k(block.b + p * plan.b.ld + jc, plan.b.ld, columns, args.k, packed_b);
        b = packed_b;
        args.ldb = args.k;
      }
      for (std::int64_t ic = 0; ic < block.m; ic += plan.mc) {
        const std::int64_t rows = std::min(plan.mc, block.m - ic);
        const float* a = block.a + ic * plan.a.ld + p;
        args.lda = plan.a.ld;
        if (!plan.a.row_major) {
          copy_along_k(block.a + p * plan.a.ld + ic, plan.a.ld, rows, args.k, packed_a);
          a = packed_a;
          args.lda = args.k;
        }
        args.behind =
            columns >= rows ? floats_behind_line(b, args.ldb, nr) : floats_behind_line(a, args.lda, mr);
        const auto tile = [&](std::int64_t i, std::int64_t j) {
          args.a = a + i * args.lda;
          args.b = b + j * args.ldb;
          args.c = block.c + (ic + i) * block.ldc + jc + j;
          kernels[std::min(mr, rows - i)][std::min(nr, columns - j)](args);
        };
        if (rows_outside) {
          for (std::int64_t i = 0; i < rows; i += mr) {
            for (std::int64_t j = 0; j < columns; j += nr) tile(i, j);
          }
        } else {
          for (std::int64_t j = 0; j < columns; j += nr) {
            for (std::int64_t i = 0; i < rows; i += mr) tile(i, j);
          }
        }
        if (p + plan.kc >= block.k) apply_epilogue(plan, block, ic, jc, rows, columns);
      }
    }
  }
}

namespace {

/// Rows of C (rows x n) += narrow (k x rows, scaled) times wide lines (k lines of n elements).
struct UpdateRows {
  const float* narrow;
  std::int64_t rows;
  const float* wide;
  std::int64_t ld;
  std::int64_t n, k;
  float* c;
  std::int64_t ldc;
  float beta;
};

void update_rows(const GemmPlan& plan, const UpdateRows& u, std::int64_t lines, std::int64_t stretch) {
  UpdateArgs args{};
  args.a_step = u.rows;
  args.b_step = u.ld;
  args.ldc = u.ldc;
  args.prefetch = plan.config.prefetch;
  const auto& kernels = plan.kernels->update[plan.config.prefetch > 0][u.rows];
  for (std::int64_t j = 0; j < u.n; j += stretch) {
    args.c = u.c + j;
    args.n = std::min(stretch, u.n - j);
    args.beta = u.beta;
    std::int64_t step = lines;
    for (std::int64_t k = 0; k < u.k; k += step) {
      while (step > u.k - k) step /= 2;
      args.a = u.narrow + k * u.rows;
      args.b = u.wide + k * u.ld + j;
      kernels[step](args);
      args.beta = 1;
    }
  }
}

}  // namespace

void run_update(const GemmPlan& plan, const Block& block) noexcept {
  const bool streams_b = plan.config.kind == NativeKind::skinny_m;
  const std::int64_t group = streams_b ? plan.config.mr : plan.config.nr;
  const std::int64_t lines = streams_b ? plan.config.nr : plan.config.mr;
  const std::int64_t narrow_size = streams_b ? block.m : block.n;
  const Operand& narrow = streams_b ? plan.a : plan.b;
  // A narrow element (g, k): rows of A, or columns of B.
  const bool along_k = streams_b ? narrow.row_major : !narrow.row_major;
  float* const copy = block.workspace;
  // As far behind a cache line as A, so that the vectors of both are on boundaries (stream-inl.h, update).
  float* const turned = block.workspace + plan.a_size + plan.b_size + floats_behind_line(block.a);
  const std::int64_t turned_ld = round_up(block.m, kLine);
  for (std::int64_t g = 0; g < narrow_size; g += group) {
    const std::int64_t rows = std::min(group, narrow_size - g);
    const float* from = (streams_b ? block.a : block.b) + (along_k ? g * narrow.ld : g);
    for (std::int64_t k = 0; k < block.k; ++k) {
      for (std::int64_t i = 0; i < rows; ++i) {
        copy[k * rows + i] = block.alpha * (along_k ? from[i * narrow.ld + k] : from[k * narrow.ld + i]);
      }
    }
    if (streams_b) {
      update_rows(
          plan,
          {copy, rows, block.b, plan.b.ld, block.n, block.k, block.c + g * block.ldc, block.ldc, block.beta},
          lines, plan.nc);
      apply_epilogue(plan, block, g, 0, rows, block.n);
    } else {
      update_rows(plan, {copy, rows, block.a, plan.a.ld, block.m, block.k, turned, turned_ld, 0}, lines,
                  plan.mc);
      for (std::int64_t i = 0; i < block.m; ++i) {
        for (std::int64_t j = 0; j < rows; ++j) {
          float& to = block.c[i * block.ldc + g + j];
          to = block.beta != 0 ? turned[j * turned_ld + i] + block.beta * to : turned[j * turned_ld + i];
        }
      }
      apply_epilogue(plan, block, 0, g, block.m, rows);
    }
  }
}

}  // namespace kscout::cpu
