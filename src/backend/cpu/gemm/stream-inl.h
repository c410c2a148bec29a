// Implements the dot-product and row-update kernels and the packing copies of one target.
#include <algorithm>
#include <array>

#include "backend/cpu/common/lanes-inl.h"
#include "backend/cpu/common/range.h"
#include "backend/cpu/gemm/gemm_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace kscout::cpu::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR
template <int Chains>
HWY_INLINE void turn_lanes(V (&)[Chains], std::int64_t) {}
HWY_INLINE V load_from_lane(std::int64_t, const float* from) { return hn::LoadU(d, from); }
#else
/// The lanes of a vector, twice. From element i on: the lanes when they turn by i.
inline constexpr auto kTurns = [] {
  std::array<std::int32_t, 2 * kLanes> lanes{};
  for (int i = 0; i < 2 * kLanes; ++i) lanes[i] = i % kLanes;
  return lanes;
}();

/// Lane l of each chain becomes what lane l + count has; beyond the last lane, that of the next chain.
template <int Chains>
HWY_INLINE void turn_lanes(V (&chain)[Chains], std::int64_t count) {
  const auto lanes = hn::IndicesFromVec(d, hn::LoadU(hn::RebindToSigned<D>(), kTurns.data() + count));
  const auto of_next = hn::FirstN(d, static_cast<std::size_t>(count));
  const V first = chain[0];
  KSCOUT_FULL_UNROLL for (int u = 0; u < Chains; ++u) {
    const V next = u + 1 < Chains ? chain[(u + 1) % Chains] : first;
    chain[u] = hn::TableLookupLanes(Chains > 1 ? hn::IfThenElse(of_next, next, chain[u]) : chain[u], lanes);
  }
}
/// Lanes before `lane` are zero and not read.
HWY_INLINE V load_from_lane(std::int64_t lane, const float* from) {
  return hn::MaskedLoad(hn::Not(hn::FirstN(d, static_cast<std::size_t>(lane))), d, from);
}
#endif

template <int Rows, int Columns, bool Prefetching>
void dot(const DotArgs& args) {
  // Small tiles have fewer accumulators than FMAs in flight (latency 4, two per cycle), so each element gets
  // several accumulators.
  constexpr int kChains = Rows * Columns <= 2 ? 4 : Rows * Columns <= 4 ? 2 : 1;
  constexpr std::int64_t kGroup = kChains * kLanes;
  const float* HWY_RESTRICT a = args.a;
  const float* HWY_RESTRICT b = args.b;
  const std::int64_t lda = args.lda, ldb = args.ldb;

  V sum[Rows][Columns][kChains];
  KSCOUT_FULL_UNROLL for (int i = 0; i < Rows; ++i) {
    KSCOUT_FULL_UNROLL for (int j = 0; j < Columns; ++j) {
      KSCOUT_FULL_UNROLL for (int u = 0; u < kChains; ++u) sum[i][j][u] = hn::Zero(d);
    }
  }
  const auto step = [&](std::int64_t k, int u, const auto& load) HWY_ATTR {
    V column[Columns];
    KSCOUT_FULL_UNROLL for (int j = 0; j < Columns; ++j) column[j] = load(b + j * ldb + k);
    KSCOUT_FULL_UNROLL for (int i = 0; i < Rows; ++i) {
      const V row = load(a + i * lda + k);
      KSCOUT_FULL_UNROLL for (int j = 0; j < Columns; ++j) {
        sum[i][j][u] = hn::MulAdd(row, column[j], sum[i][j][u]);
      }
    }
  };
  const auto whole = [](const float* from) HWY_ATTR { return hn::LoadU(d, from); };

  const std::int64_t grouped = args.k - args.k % kGroup;
  // Steps that begin `behind` elements earlier load from vector boundaries. Every product goes to the sum
  // that it has without that, only in another lane, so that results do not depend on addresses.
  const std::int64_t behind = grouped >= 16 * kLanes ? args.behind % kLanes : 0;
  std::int64_t k = 0;
  if (behind > 0) {
    step(-behind, 0, [&](const float* from) HWY_ATTR { return load_from_lane(behind, from); });
    KSCOUT_FULL_UNROLL for (int u = 1; u < kChains; ++u) step(u * kLanes - behind, u, whole);
    k = kGroup - behind;
  }
  for (; k + kGroup <= grouped; k += kGroup) {
    if constexpr (Prefetching) {
      KSCOUT_FULL_UNROLL for (int j = 0; j < Columns; ++j) hwy::Prefetch(b + j * ldb + k + args.prefetch);
      KSCOUT_FULL_UNROLL for (int i = 0; i < Rows; ++i) hwy::Prefetch(a + i * lda + k + args.prefetch);
    }
    KSCOUT_FULL_UNROLL for (int u = 0; u < kChains; ++u) step(k + u * kLanes, u, whole);
  }
  const auto part = [&](std::int64_t count) HWY_ATTR {
    const Lanes lanes(count);
    step(k, 0, [&](const float* from) HWY_ATTR { return lanes.load(from); });
  };
  if (behind > 0) {
    part(behind);
    KSCOUT_FULL_UNROLL for (int i = 0; i < Rows; ++i) {
      KSCOUT_FULL_UNROLL for (int j = 0; j < Columns; ++j) turn_lanes(sum[i][j], behind);
    }
    k = grouped;
  }
  for (; k < args.k; k += kLanes) part(std::min<std::int64_t>(args.k - k, kLanes));
  KSCOUT_FULL_UNROLL for (int i = 0; i < Rows; ++i) {
    KSCOUT_FULL_UNROLL for (int j = 0; j < Columns; ++j) {
      V total = sum[i][j][0];
      KSCOUT_FULL_UNROLL for (int u = 1; u < kChains; ++u) total = hn::Add(total, sum[i][j][u]);
      float* to = args.c + i * args.ldc + j;
      const float value = args.alpha * hn::GetLane(hn::SumOfLanes(d, total));
      *to = args.beta != 0 ? value + args.beta * *to : value;
    }
  }
}

template <int Rows, int Lines, bool Prefetching>
void update(const UpdateArgs& args) {
  const float* HWY_RESTRICT a = args.a;
  const float* HWY_RESTRICT b = args.b;
  float* HWY_RESTRICT c = args.c;
  const V beta = hn::Set(d, args.beta);
  const bool reads_c = args.beta != 0;
  const auto stretch = [&](std::int64_t j, const auto& load, const auto& store) HWY_ATTR {
    V sum[Rows];
    KSCOUT_FULL_UNROLL for (int i = 0; i < Rows; ++i) {
      sum[i] = reads_c ? hn::Mul(beta, load(c + i * args.ldc + j)) : hn::Zero(d);
    }
    KSCOUT_FULL_UNROLL for (int l = 0; l < Lines; ++l) {
      if constexpr (Prefetching) hwy::Prefetch(b + l * args.b_step + j + args.prefetch);
      const V line = load(b + l * args.b_step + j);
      KSCOUT_FULL_UNROLL for (int i = 0; i < Rows; ++i) {
        sum[i] = hn::MulAdd(hn::Set(d, a[l * args.a_step + i]), line, sum[i]);
      }
    }
    KSCOUT_FULL_UNROLL for (int i = 0; i < Rows; ++i) store(sum[i], c + i * args.ldc + j);
  };
  const auto part = [&](std::int64_t j, std::int64_t count) HWY_ATTR {
    const Lanes lanes(count);
    stretch(
        j, [&](const float* from) HWY_ATTR { return lanes.load(from); },
        [&](V v, float* to) HWY_ATTR { lanes.store(v, to); });
  };
  // A short first step puts the other loads on vector boundaries: a load across two cache lines waits for
  // both. Each column has the same sum wherever the steps begin, so that results do not depend on addresses.
  const bool worth = args.b_step % kLanes == 0 && args.n >= 4 * kLanes;
  const std::int64_t head = worth ? -floats_behind_line(b) & (kLanes - 1) : 0;
  if (head > 0) part(0, head);
  std::int64_t j = head;
  for (; j + kLanes <= args.n; j += kLanes) {
    stretch(
        j, [](const float* from) HWY_ATTR { return hn::LoadU(d, from); },
        [](V v, float* to) HWY_ATTR { hn::StoreU(v, d, to); });
  }
  if (j < args.n) part(j, args.n - j);
}

#if HWY_TARGET != HWY_SCALAR
/// Loads 4 elements of every fourth line: block q of the result (4 lanes) contains line 4 * q.
template <class Tag>
HWY_INLINE hn::Vec<Tag> load_blocks(Tag tag, const float* src, std::int64_t ld) {
  if constexpr (hn::MaxLanes(Tag()) == 4) {
    return hn::LoadU(tag, src);
  } else {
    const hn::Half<Tag> half;
    constexpr std::int64_t lines = hn::MaxLanes(Tag()) / 2;
    return hn::Combine(tag, load_blocks(half, src + lines * ld, ld), load_blocks(half, src, ld));
  }
}

/// Transposes 4 steps along K of kLanes lines into 4 groups of kLanes elements.
HWY_INLINE void transpose_step(const float* src, std::int64_t ld, float* dst, std::int64_t stride) {
  const hn::Repartition<double, D> wide;
  const V r0 = load_blocks(d, src, ld), r1 = load_blocks(d, src + ld, ld);
  const V r2 = load_blocks(d, src + 2 * ld, ld), r3 = load_blocks(d, src + 3 * ld, ld);
  const auto low01 = hn::BitCast(wide, hn::InterleaveLower(d, r0, r1));
  const auto low23 = hn::BitCast(wide, hn::InterleaveLower(d, r2, r3));
  const auto high01 = hn::BitCast(wide, hn::InterleaveUpper(d, r0, r1));
  const auto high23 = hn::BitCast(wide, hn::InterleaveUpper(d, r2, r3));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(wide, low01, low23)), d, dst);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(wide, low01, low23)), d, dst + stride);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(wide, high01, high23)), d, dst + 2 * stride);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(wide, high01, high23)), d, dst + 3 * stride);
}

/// Transposes 4 lines along K into k_size groups of 4 elements.
HWY_INLINE void transpose_quad(const float* src, std::int64_t ld, std::int64_t k_size, float* dst,
                               std::int64_t stride) {
  const hn::FixedTag<float, 4> quad;
  const hn::FixedTag<double, 2> wide;
  std::int64_t k = 0;
  for (; k + 4 <= k_size; k += 4) {
    const auto r0 = hn::LoadU(quad, src + k), r1 = hn::LoadU(quad, src + ld + k);
    const auto r2 = hn::LoadU(quad, src + 2 * ld + k), r3 = hn::LoadU(quad, src + 3 * ld + k);
    const auto low01 = hn::BitCast(wide, hn::InterleaveLower(quad, r0, r1));
    const auto low23 = hn::BitCast(wide, hn::InterleaveLower(quad, r2, r3));
    const auto high01 = hn::BitCast(wide, hn::InterleaveUpper(quad, r0, r1));
    const auto high23 = hn::BitCast(wide, hn::InterleaveUpper(quad, r2, r3));
    float* to = dst + k * stride;
    hn::StoreU(hn::BitCast(quad, hn::InterleaveLower(wide, low01, low23)), quad, to);
    hn::StoreU(hn::BitCast(quad, hn::InterleaveUpper(wide, low01, low23)), quad, to + stride);
    hn::StoreU(hn::BitCast(quad, hn::InterleaveLower(wide, high01, high23)), quad, to + 2 * stride);
    hn::StoreU(hn::BitCast(quad, hn::InterleaveUpper(wide, high01, high23)), quad, to + 3 * stride);
  }
  for (; k < k_size; ++k) {
    for (int i = 0; i < 4; ++i) dst[k * stride + i] = src[i * ld + k];
  }
}
#else
HWY_INLINE void transpose_quad(const float* src, std::int64_t ld, std::int64_t k_size, float* dst,
                               std::int64_t stride) {
  for (std::int64_t k = 0; k < k_size; ++k) {
    for (int i = 0; i < 4; ++i) dst[k * stride + i] = src[i * ld + k];
  }
}
HWY_INLINE void transpose_step(const float* src, std::int64_t, float* dst, std::int64_t stride) {
  for (int k = 0; k < 4; ++k) dst[k * stride] = src[k];
}
#endif

/// Packs one panel of `width` lines along K: kLanes lines at a time, then 4 at a time, then single lines.
HWY_INLINE void pack_panel_of_lines(const float* src, std::int64_t ld, std::int64_t width,
                                    std::int64_t k_size, float* dst, std::int64_t stride) {
  std::int64_t line = 0;
  for (; line + kLanes <= width; line += kLanes) {
    const float* from = src + line * ld;
    float* to = dst + line;
    std::int64_t k = 0;
    for (; k + 4 <= k_size; k += 4) transpose_step(from + k, ld, to + k * stride, stride);
    for (; k < k_size; ++k) {
      for (int i = 0; i < kLanes; ++i) to[k * stride + i] = from[i * ld + k];
    }
  }
  for (; line + 4 <= width; line += 4) transpose_quad(src + line * ld, ld, k_size, dst + line, stride);
  for (; line < width; ++line) {
    const float* from = src + line * ld;
    for (std::int64_t k = 0; k < k_size; ++k) dst[k * stride + line] = from[k];
  }
  for (; line < stride; ++line) {
    for (std::int64_t k = 0; k < k_size; ++k) dst[k * stride + line] = 0;
  }
}

void pack_lines(const PackArgs& args) {
  for (std::int64_t i = 0; i < args.width; i += args.panel) {
    const std::int64_t width = std::min(args.panel, args.width - i);
    const std::int64_t stride = args.pad ? (width + kLanes - 1) / kLanes * kLanes : width;
    pack_panel_of_lines(args.src + i * args.ld, args.ld, width, args.k, args.dst + i * args.k, stride);
  }
}

HWY_INLINE void copy_group(const float* src, std::int64_t width, float* dst, std::int64_t stride) {
  std::int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes) hn::StoreU(hn::LoadU(d, src + i), d, dst + i);
  for (; i < width; ++i) dst[i] = src[i];
  for (; i < stride; ++i) dst[i] = 0;
}

/// Reads whole lines across all panels, so that memory is read in order. Panel by panel, each read of a line
/// would use only a few elements, and every panel would need another page look-up for the line.
void pack_groups(const PackArgs& args) {
  for (std::int64_t k = 0; k < args.k; ++k) {
    const float* src = args.src + k * args.ld;
    std::int64_t i = 0;
    for (; i + args.panel <= args.width; i += args.panel) {
      copy_group(src + i, args.panel, args.dst + i * args.k + k * args.panel, args.panel);
    }
    if (i < args.width) {
      const std::int64_t width = args.width - i;
      const std::int64_t stride = args.pad ? (width + kLanes - 1) / kLanes * kLanes : width;
      copy_group(src + i, width, args.dst + i * args.k + k * stride, stride);
    }
  }
}

template <int Rows, int Columns, int Most>
void fill_dot_row(GemmKernels& set) {
  if constexpr (Columns >= 1) {
    if constexpr (Rows * Columns <= Most) {
      set.dot[0][Rows][Columns] = dot<Rows, Columns, false>;
      set.dot[1][Rows][Columns] = dot<Rows, Columns, true>;
    }
    fill_dot_row<Rows, Columns - 1, Most>(set);
  }
}

template <int Rows, int Most>
void fill_stream_rows(GemmKernels& set) {
  if constexpr (Rows >= 1) {
    fill_dot_row<Rows, kMaxTileSide, Most>(set);
    const auto fill = [&](int lines, UpdateKernel plain, UpdateKernel prefetching) {
      set.update[0][Rows][lines] = plain;
      set.update[1][Rows][lines] = prefetching;
    };
    fill(1, update<Rows, 1, false>, update<Rows, 1, true>);
    fill(2, update<Rows, 2, false>, update<Rows, 2, true>);
    fill(4, update<Rows, 4, false>, update<Rows, 4, true>);
    fill(8, update<Rows, 8, false>, update<Rows, 8, true>);
    fill_stream_rows<Rows - 1, Most>(set);
  }
}

template <NativeIsa Isa>
void fill_stream(GemmKernels& set) {
  set.lanes = kLanes;
  set.pack_lines = pack_lines;
  set.pack_groups = pack_groups;
  fill_stream_rows<kMaxTileSide, register_tiles(Isa).accumulators>(set);
}

}  // namespace kscout::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
