// Implements the inner loops of convolutions of one target.
#include <type_traits>

#include "backend/cpu/common/register_tile-inl.h"
#include "backend/cpu/conv/conv_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace kscout::cpu::HWY_NAMESPACE {

// A vector store may alias every member of `args`, and the compiler loads members again after it. The loop
// over tiles uses local variables instead: loads between tiles cost most where a tile sums few products.
template <int Rows, int Vectors, bool Pointers>
void conv_tile(const ConvTileArgs& args) {
  const std::int64_t b_step = args.b_step, b_tap = args.b_tap, a_step = args.a_step, depth = args.depth;
  const std::int64_t tiles = Pointers ? 1 : args.tiles, ldc = args.ldc, c_shift = args.c_shift;
  const ConvTaps taps = args.taps;
  const Lanes last(args.last);
  const bool partial = args.last != kLanes, accumulate = args.accumulate, plain = !partial && !accumulate;
  const float* const filter = args.b + (Pointers ? 0 : taps.first * b_tap);
  const float* first = Pointers ? nullptr : args.a + taps.first * taps.step + args.shift;
  float* c = Pointers ? nullptr : args.c + c_shift;

  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    V sum[Rows][Vectors];
    clear(sum);
    const auto multiply = [&](const float* const* a, const float* HWY_RESTRICT b) HWY_ATTR {
      KSCOUT_UNROLL_4 for (std::int64_t k = 0; k < depth; ++k) {
        add_outer_product(
            sum,
            [&](int i)
                HWY_ATTR { return hn::Set(d, Pointers ? a[Pointers ? i : 0][k] : a[0][i * a_step + k]); },
            [&](int j) HWY_ATTR { return hn::LoadU(d, b + j * kLanes); });
        b += b_step;
      }
    };
    for (std::int64_t r = 0; r < taps.row_count; ++r) {
      if constexpr (Pointers) {
        const float* a[Rows];
        KSCOUT_FULL_UNROLL for (int i = 0; i < Rows; ++i) a[i] = args.a_rows[r * Rows + i] + args.shift;
        multiply(a, filter + taps.rows[r].index * b_tap);
      } else {
        const float* a = first + taps.rows[r].a;
        const float* b = filter + taps.rows[r].index * b_tap;
        for (std::int64_t t = 0; t < taps.count; ++t, a += taps.step, b += b_tap) multiply(&a, b);
      }
    }

    const auto row_of_c = [&](int i) HWY_ATTR { return Pointers ? args.c_rows[i] + c_shift : c + i * ldc; };
    if (plain) {  // one branch per tile, not two per vector
      store_tile(sum, row_of_c, false, last, [](V v, const auto&) HWY_ATTR { return v; });
    } else {
      store_tile(sum, row_of_c, partial, last,
                 [&](V v, const auto& of_c) HWY_ATTR { return accumulate ? hn::Add(v, of_c()) : v; });
    }
    first += Pointers ? 0 : Rows * a_step;
    c += Pointers ? 0 : Rows * ldc;
  }
}

template <int Rows, int Vectors, bool Masked>
void conv_weight(const ConvWeightArgs& args) {
  const std::int64_t a_step = args.a_step, b_step = args.b_step;
  const Lanes last(Masked ? args.last : kLanes);
  const auto load = [&](const float* from, int j) HWY_ATTR {
    return Masked && j == Vectors - 1 ? last.load(from + j * kLanes) : hn::LoadU(d, from + j * kLanes);
  };
  V sum[Rows][Vectors];
  clear(sum);
  for (std::int64_t s = 0; s < args.segment_count; ++s) {
    const ConvSegment& segment = args.segments[s];
    const float* HWY_RESTRICT a = segment.a + args.a_first;
    const float* HWY_RESTRICT b = segment.b + args.b_first;
    KSCOUT_UNROLL_4 for (std::int64_t p = 0; p < segment.count; ++p) {
      add_outer_product(
          sum, [&](int i) HWY_ATTR { return hn::Set(d, a[i]); }, [&](int j) HWY_ATTR { return load(b, j); });
      a += a_step;
      b += b_step;
    }
  }
  store_tile(
      sum, [&](int i) HWY_ATTR { return args.c + i * args.ldc; }, Masked, last,
      [&](V v, const auto& of_c) HWY_ATTR { return args.accumulate ? hn::Add(v, of_c()) : v; });
}

#if HWY_TARGET == HWY_SCALAR
using LaneTable = std::int32_t;
HWY_INLINE LaneTable lane_table(const std::int32_t* lane_of, std::int64_t channel) {
  return lane_of[0] + static_cast<std::int32_t>(channel);
}
/// With one lane, `span` inputs are read one by one.
struct Inputs {
  const float* from;
  HWY_INLINE V at(LaneTable lane) const { return hn::Set(d, from[lane]); }
};
HWY_INLINE Inputs load_inputs(const float* from, const Lanes&) { return {from}; }
#else
using LaneTable = decltype(hn::SetTableIndices(d, static_cast<const std::int32_t*>(nullptr)));
HWY_INLINE LaneTable lane_table(const std::int32_t* lane_of, std::int64_t channel) {
  const hn::RebindToSigned<D> di;
  const auto lanes = hn::Add(hn::LoadU(di, lane_of), hn::Set(di, static_cast<std::int32_t>(channel)));
  return hn::IndicesFromVec(d, lanes);
}
struct Inputs {
  V all;
  HWY_INLINE V at(LaneTable lanes) const { return hn::TableLookupLanes(all, lanes); }
};
HWY_INLINE Inputs load_inputs(const float* from, const Lanes& span) { return {span.load(from)}; }
#endif

template <int Pixels, int Vectors, bool Moved, bool Masked>
void conv_lanes(const ConvLanesArgs& args) {
  const Lanes span(Moved ? args.span : Masked ? args.last : kLanes);
  const Lanes last(Masked ? args.last : kLanes);
  const std::int64_t x_step = args.x_step, x_vector = args.x_vector, w_vector = args.w_vector;
  const ConvTaps& taps = args.taps;
  const std::int64_t w_tap = args.depth * kLanes;
  const float* first = args.x + taps.first * taps.step;
  float* c = args.c;
  for (std::int64_t p = 0; p < args.pixels; p += Pixels) {
    V sum[Pixels][Vectors];
    clear(sum);
    const auto multiply = [&](const float* HWY_RESTRICT x, const float* HWY_RESTRICT w) HWY_ATTR {
      KSCOUT_FULL_UNROLL for (int j = 0; j < Vectors; ++j) {
        if constexpr (!Moved) {
          const V of_w = hn::LoadU(d, w + j * w_vector);
          KSCOUT_FULL_UNROLL for (int i = 0; i < Pixels; ++i) {
            const float* from = x + i * x_step + j * x_vector;
            const V of_x = Masked ? span.load(from) : hn::LoadU(d, from);
            sum[i][j] = hn::MulAdd(of_x, of_w, sum[i][j]);
          }
        } else {
          for (std::int64_t k = 0; k < args.depth; ++k) {
            const V of_w = hn::LoadU(d, w + j * w_vector + k * kLanes);
            const LaneTable lanes = lane_table(args.lane_of, k);
            KSCOUT_FULL_UNROLL for (int i = 0; i < Pixels; ++i) {
              const auto in = load_inputs(x + i * x_step + j * x_vector, span);
              sum[i][j] = hn::MulAdd(in.at(lanes), of_w, sum[i][j]);
            }
          }
        }
      }
    };
    for (std::int64_t r = 0; r < taps.row_count; ++r) {
      const float* x = first + taps.rows[r].a;
      const float* w = args.w + (taps.rows[r].index + taps.first) * w_tap;
      for (std::int64_t t = 0; t < taps.count; ++t, x += taps.step, w += w_tap) multiply(x, w);
    }
    store_tile(
        sum, [&](int i) HWY_ATTR { return c + i * args.ldc; }, Masked, last,
        [](V sums, const auto&) HWY_ATTR { return sums; });
    first += Pixels * x_step;
    c += Pixels * args.ldc;
  }
}

/// Every input of a filter row is loaded once for all pixels that use it.
template <int Pixels, int Vectors, int Width, int Stride, bool Masked>
void conv_filter_row(const ConvLanesArgs& args) {
  constexpr int kColumns = (Pixels - 1) * Stride + Width;
  const Lanes last(Masked ? args.last : kLanes);
  const std::int64_t step = args.taps.step, w_vector = args.w_vector;
  std::int64_t begin = args.begin, end = args.end;
  // `ahead`: elements to the inputs of the next tile.
  const auto tile = [&](const float* first, const float* filter, float* c, std::int64_t ahead) HWY_ATTR {
    V sum[Pixels][Vectors];
    clear(sum);
    const auto multiply = [&]<bool Whole>(std::bool_constant<Whole>) HWY_ATTR {
      for (std::int64_t r = 0; r < args.taps.row_count; ++r) {
        const float* HWY_RESTRICT x = first + args.taps.rows[r].a;
        const float* HWY_RESTRICT w = filter + args.taps.rows[r].index * kLanes;
        V of_w[Width][Vectors];
        KSCOUT_FULL_UNROLL for (int t = 0; t < Width; ++t) {
          KSCOUT_FULL_UNROLL for (int v = 0; v < Vectors; ++v) {
            of_w[t][v] = hn::LoadU(d, w + v * w_vector + t * kLanes);
          }
        }
        KSCOUT_FULL_UNROLL for (int j = 0; j < kColumns; ++j, x += step) {
          if (!Whole && (j < begin || j >= end)) continue;
          KSCOUT_FULL_UNROLL for (int v = 0; v < Vectors; ++v) {
            // A load across two cache lines is slowest where the first-level cache has neither. Of the two,
            // the tile before the next one fetches the first.
            if constexpr (Width > 1) hwy::Prefetch(x + ahead + (v + 1) * kLanes - 1);
            const V of_x = Masked ? last.load(x) : hn::LoadU(d, x + v * kLanes);
            KSCOUT_FULL_UNROLL for (int t = 0; t < Width; ++t) {
              const int i = (j - t) / Stride;
              if (j >= t && (j - t) % Stride == 0 && i < Pixels) {
                sum[i][v] = hn::MulAdd(of_x, of_w[t][v], sum[i][v]);
              }
            }
          }
        }
      }
    };
    if (begin <= 0 && end >= kColumns) {
      multiply(std::true_type());
    } else {
      multiply(std::false_type());
    }
    store_tile(
        sum, [&](int i) HWY_ATTR { return c + i * args.ldc; }, Masked, last,
        [](V sums, const auto&) HWY_ATTR { return sums; });
  };
  for (std::int64_t p = 0; p < args.pixels; p += Pixels, begin -= Pixels * Stride, end -= Pixels * Stride) {
    for (std::int64_t v = 0; v < args.vectors; v += Vectors) {
      tile(args.x + p * args.x_step + v * kLanes, args.w + v * w_vector, args.c + p * args.ldc + v * kLanes,
           v + Vectors < args.vectors ? Vectors * kLanes : Pixels * args.x_step - v * kLanes);
    }
  }
}

template <int Taps, int Depth>
void conv_sums(const ConvSumsArgs& args) {
  const Lanes last(args.last), span(args.span);
  const std::int64_t g_step = args.g_step, x_step = args.x_step;
  std::int64_t offset[Taps];
  KSCOUT_FULL_UNROLL for (int t = 0; t < Taps; ++t) offset[t] = args.taps[t].a;
  V sum[Taps][Depth];
  KSCOUT_FULL_UNROLL for (int t = 0; t < Taps; ++t) {
    KSCOUT_FULL_UNROLL for (int c = 0; c < Depth; ++c) {
      sum[t][c] = hn::LoadU(d, args.sums + (args.taps[t].index * Depth + c) * kLanes);
    }
  }
  const float* HWY_RESTRICT g = args.g;
  const float* HWY_RESTRICT x = args.x;
  const bool whole = args.last == kLanes && args.span == kLanes;
  const auto pixels = [&](const auto& load_g, const auto& load_x) HWY_ATTR {
    for (std::int64_t p = 0; p < args.pixels; ++p) {
      const V of_g = load_g(g);
      KSCOUT_FULL_UNROLL for (int t = 0; t < Taps; ++t) load_x(of_g, x + offset[t], t);
      g += g_step;
      x += x_step;
    }
  };
  if constexpr (Depth == 1) {
    if (args.lane_of == nullptr) {
      if (whole) {
        pixels([](const float* from) HWY_ATTR { return hn::LoadU(d, from); },
               [&](V of_g, const float* from, int t)
                   HWY_ATTR { sum[t][0] = hn::MulAdd(of_g, hn::LoadU(d, from), sum[t][0]); });
      } else {
        pixels([&](const float* from) HWY_ATTR { return last.load(from); },
               [&](V of_g, const float* from, int t)
                   HWY_ATTR { sum[t][0] = hn::MulAdd(of_g, span.load(from), sum[t][0]); });
      }
    }
  }
  if (Depth > 1 || args.lane_of != nullptr) {
    LaneTable lanes[Depth];
    KSCOUT_FULL_UNROLL for (int c = 0; c < Depth; ++c) lanes[c] = lane_table(args.lane_of, c);
    pixels([&](const float* from) HWY_ATTR { return last.load(from); },
           [&](V of_g, const float* from, int t) HWY_ATTR {
             const Inputs in = load_inputs(from, span);
             KSCOUT_FULL_UNROLL for (int c = 0; c < Depth; ++c) {
               sum[t][c] = hn::MulAdd(of_g, in.at(lanes[c]), sum[t][c]);
             }
           });
  }
  KSCOUT_FULL_UNROLL for (int t = 0; t < Taps; ++t) {
    KSCOUT_FULL_UNROLL for (int c = 0; c < Depth; ++c) {
      hn::StoreU(sum[t][c], d, args.sums + (args.taps[t].index * Depth + c) * kLanes);
    }
  }
}

/// Two pixels at a time where no column lies in the padding: they share the columns that both meet.
template <int Rows, int Width, int Stride>
void conv_row_sums(const ConvRowSumsArgs& args) {
  const std::int64_t column = args.x_column;
  const float* x[Rows];
  V sum[Rows][Width];
  KSCOUT_FULL_UNROLL for (int r = 0; r < Rows; ++r) {
    x[r] = args.x + args.rows[r].a;
    KSCOUT_FULL_UNROLL for (int t = 0; t < Width; ++t) {
      sum[r][t] = hn::LoadU(d, args.sums + (args.rows[r].index + t) * kLanes);
    }
  }
  const auto add = [&]<int Pixels, bool Whole>(std::integral_constant<int, Pixels>, std::bool_constant<Whole>,
                                               std::int64_t p) HWY_ATTR {
    V of_g[Pixels];
    KSCOUT_FULL_UNROLL for (int i = 0; i < Pixels; ++i) {
      of_g[i] = hn::LoadU(d, args.g + (p + i) * args.g_step);
    }
    KSCOUT_FULL_UNROLL for (int r = 0; r < Rows; ++r) {
      const float* HWY_RESTRICT from = x[r] + p * args.x_step;
      KSCOUT_FULL_UNROLL for (int j = 0; j < (Pixels - 1) * Stride + Width; ++j, from += column) {
        if (!Whole && (p * Stride + j < args.begin || p * Stride + j >= args.end)) continue;
        const V of_x = hn::LoadU(d, from);
        KSCOUT_FULL_UNROLL for (int i = 0; i < Pixels; ++i) {
          const int t = j - i * Stride;
          if (t >= 0 && t < Width) sum[r][t] = hn::MulAdd(of_g[i], of_x, sum[r][t]);
        }
      }
    }
  };
  constexpr std::integral_constant<int, 1> one;
  constexpr std::integral_constant<int, 2> two;
  std::int64_t p = 0;
  for (; p < args.pixels && p * Stride < args.begin; ++p) add(one, std::false_type(), p);
  for (; p + 1 < args.pixels && (p + 1) * Stride + Width <= args.end; p += 2) add(two, std::true_type(), p);
  for (; p < args.pixels; ++p) add(one, std::false_type(), p);
  KSCOUT_FULL_UNROLL for (int r = 0; r < Rows; ++r) {
    KSCOUT_FULL_UNROLL for (int t = 0; t < Width; ++t) {
      hn::StoreU(sum[r][t], d, args.sums + (args.rows[r].index + t) * kLanes);
    }
  }
}

template <int Rows, int Vectors>
void fill_conv_tiles(ConvKernels& set) {
  set.tile[0][Rows][Vectors] = conv_tile<Rows, Vectors, false>;
  set.tile[1][Rows][Vectors] = conv_tile<Rows, Vectors, true>;
  set.weight[0][Rows][Vectors] = conv_weight<Rows, Vectors, false>;
  set.weight[1][Rows][Vectors] = conv_weight<Rows, Vectors, true>;
  if constexpr (Rows > 1) fill_conv_tiles<Rows - 1, Vectors>(set);
}

/// A sum per pixel, the weights of a filter row and an input must fit the registers.
template <int Width, int Stride, int Registers, int Pixels = kMaxTileSide>
void fill_conv_filter_row(ConvKernels& set) {
  auto& kernels = set.filter_row[Width][Stride][Pixels];
  if constexpr (Pixels + Width <= Registers) {
    kernels[0] = conv_filter_row<Pixels, 1, Width, Stride, true>;
    kernels[1] = conv_filter_row<Pixels, 1, Width, Stride, false>;
  }
  if constexpr ((Pixels + Width) * 2 <= Registers)
    kernels[2] = conv_filter_row<Pixels, 2, Width, Stride, false>;
  if constexpr ((Pixels + Width) * 4 <= Registers)
    kernels[4] = conv_filter_row<Pixels, 4, Width, Stride, false>;
  if constexpr (Pixels > 1) fill_conv_filter_row<Width, Stride, Registers, Pixels - 1>(set);
}

template <int Width, int Rows>
void fill_conv_row_sums(ConvKernels& set) {
  set.row_sums[Width][1][Rows] = conv_row_sums<Rows, Width, 1>;
  set.row_sums[Width][2][Rows] = conv_row_sums<Rows, Width, 2>;
  if constexpr (Rows > 1) fill_conv_row_sums<Width, Rows - 1>(set);
}

template <int Pixels, int Vectors>
void fill_conv_lanes(ConvKernels& set) {
  set.direct[Pixels][Vectors] = conv_lanes<Pixels, Vectors, false, false>;
  set.moved[Pixels][Vectors] = conv_lanes<Pixels, Vectors, true, false>;
  if constexpr (Vectors == 1) {
    set.masked[0][Pixels] = conv_lanes<Pixels, 1, false, true>;
    set.masked[1][Pixels] = conv_lanes<Pixels, 1, true, true>;
  }
  if constexpr (Pixels > 1) fill_conv_lanes<Pixels - 1, Vectors>(set);
}

template <int Taps, int Depth>
void fill_conv_sums(ConvKernels& set) {
  set.sums[Taps][Depth] = conv_sums<Taps, Depth>;
  if constexpr (Taps > 1) fill_conv_sums<Taps - 1, Depth>(set);
}

template <NativeIsa Isa>
void fill_conv(ConvKernels& set) {
  constexpr RegisterTiles tiles = register_tiles(Isa);
  constexpr int Sums = tiles.accumulators;
  set.lanes = kLanes;
  fill_conv_tiles<tiles.rows[0], 1>(set);
  fill_conv_tiles<tiles.rows[1], 2>(set);
  fill_conv_tiles<tiles.rows[2], 3>(set);
  fill_conv_tiles<tiles.rows[3], 4>(set);
  fill_conv_lanes<kMaxTileSide, 1>(set);
  fill_conv_lanes<Sums / 2 < kMaxTileSide ? Sums / 2 : kMaxTileSide, 2>(set);
  fill_conv_lanes<Sums / 4 < kMaxTileSide ? Sums / 4 : kMaxTileSide, 4>(set);
  constexpr int registers = Isa == NativeIsa::avx512 ? 31 : 15;
  fill_conv_filter_row<1, 1, registers>(set);
  fill_conv_filter_row<2, 1, registers>(set);
  fill_conv_filter_row<3, 1, registers>(set);
  fill_conv_filter_row<3, 2, registers>(set);
  fill_conv_filter_row<5, 1, registers>(set);
  fill_conv_filter_row<5, 2, registers>(set);
  fill_conv_filter_row<7, 1, registers>(set);
  fill_conv_filter_row<7, 2, registers>(set);
  fill_conv_row_sums<3, 3>(set);
  fill_conv_row_sums<5, Sums / 5 < 5 ? Sums / 5 : 5>(set);
  fill_conv_row_sums<7, Sums / 7>(set);
  fill_conv_sums<Sums, 1>(set);
  fill_conv_sums<Sums / 2, 2>(set);
  fill_conv_sums<Sums / 4, 4>(set);
  fill_conv_sums<Sums / 8, 8>(set);
  if constexpr (Sums >= 16) fill_conv_sums<Sums / 16, 16>(set);
}

}  // namespace kscout::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
