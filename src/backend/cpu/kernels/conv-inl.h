// Implements the inner loops of convolutions of one target.
#include "backend/cpu/kernels/conv_kernels.h"
#include "backend/cpu/kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kscout::cpu::HWY_NAMESPACE {

template <int Rows, int Vectors, bool Pointers>
void conv_tile(const ConvTileArgs& args) {
  const std::int64_t b_step = args.b_step, a_step = args.a_step, depth = args.depth;
  const Lanes last(args.last);
  const auto row_of_c = [&](int i) HWY_ATTR {
    return Pointers ? args.c_rows[i] + args.c_shift : args.c + i * args.ldc + args.c_shift;
  };

  V sum[Rows][Vectors];
  KSCOUT_FULL_UNROLL for (int i = 0; i < Rows; ++i) {
    KSCOUT_FULL_UNROLL for (int j = 0; j < Vectors; ++j) sum[i][j] = hn::Zero(d);
  }

  const auto multiply = [&](const float* const* a, const float* HWY_RESTRICT b) HWY_ATTR {
    const auto element = [&](int i, std::int64_t k) HWY_ATTR {
      return hn::Set(d, Pointers ? a[Pointers ? i : 0][k] : a[0][i * a_step + k]);
    };
    KSCOUT_UNROLL_4 for (std::int64_t k = 0; k < depth; ++k) {
      if constexpr (Rows < Vectors) {
        V of_a[Rows];
        KSCOUT_FULL_UNROLL for (int i = 0; i < Rows; ++i) of_a[i] = element(i, k);
        KSCOUT_FULL_UNROLL for (int j = 0; j < Vectors; ++j) {
          const V row = hn::LoadU(d, b + j * kLanes);
          KSCOUT_FULL_UNROLL for (int i = 0; i < Rows; ++i) sum[i][j] = hn::MulAdd(of_a[i], row, sum[i][j]);
        }
      } else {
        V row[Vectors];
        KSCOUT_FULL_UNROLL for (int j = 0; j < Vectors; ++j) row[j] = hn::LoadU(d, b + j * kLanes);
        KSCOUT_FULL_UNROLL for (int i = 0; i < Rows; ++i) {
          const V of_a = element(i, k);
          KSCOUT_FULL_UNROLL for (int j = 0; j < Vectors; ++j) sum[i][j] =
              hn::MulAdd(of_a, row[j], sum[i][j]);
        }
      }
      b += b_step;
    }
  };
  const ConvTaps& taps = args.taps;
  if constexpr (Pointers) {
    for (std::int64_t t = 0; t < taps.count; ++t) {
      const float* a[Rows];
      KSCOUT_FULL_UNROLL for (int i = 0; i < Rows; ++i) a[i] = args.a_rows[t * Rows + i] + args.shift;
      multiply(a, args.b + t * args.b_tap);
    }
  } else {
    for (std::int64_t r = 0; r < taps.row_count; ++r) {
      const float* a = args.a + taps.rows[r].a + taps.first * taps.step + args.shift;
      const float* b = args.b + (taps.rows[r].index + taps.first) * args.b_tap;
      for (std::int64_t t = 0; t < taps.count; ++t, a += taps.step, b += args.b_tap) multiply(&a, b);
    }
  }

  const bool partial = args.last != kLanes;
  KSCOUT_FULL_UNROLL for (int i = 0; i < Rows; ++i) {
    float* const to = row_of_c(i);
    KSCOUT_FULL_UNROLL for (int j = 0; j < Vectors; ++j) {
      V v = sum[i][j];
      if (j == Vectors - 1 && partial) {
        if (args.accumulate) v = hn::Add(v, last.load(to + j * kLanes));
        last.store(v, to + j * kLanes);
      } else {
        if (args.accumulate) v = hn::Add(v, hn::LoadU(d, to + j * kLanes));
        hn::StoreU(v, d, to + j * kLanes);
      }
    }
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
  KSCOUT_FULL_UNROLL for (int i = 0; i < Rows; ++i) {
    KSCOUT_FULL_UNROLL for (int j = 0; j < Vectors; ++j) sum[i][j] = hn::Zero(d);
  }
  for (std::int64_t s = 0; s < args.segment_count; ++s) {
    const ConvSegment& segment = args.segments[s];
    const float* HWY_RESTRICT a = args.a + segment.a;
    const float* HWY_RESTRICT b = args.b + segment.b;
    KSCOUT_UNROLL_4 for (std::int64_t p = 0; p < segment.count; ++p) {
      if constexpr (Rows < Vectors) {
        V of_a[Rows];
        KSCOUT_FULL_UNROLL for (int i = 0; i < Rows; ++i) of_a[i] = hn::Set(d, a[i]);
        KSCOUT_FULL_UNROLL for (int j = 0; j < Vectors; ++j) {
          const V row = load(b, j);
          KSCOUT_FULL_UNROLL for (int i = 0; i < Rows; ++i) sum[i][j] = hn::MulAdd(of_a[i], row, sum[i][j]);
        }
      } else {
        V row[Vectors];
        KSCOUT_FULL_UNROLL for (int j = 0; j < Vectors; ++j) row[j] = load(b, j);
        KSCOUT_FULL_UNROLL for (int i = 0; i < Rows; ++i) {
          const V of_a = hn::Set(d, a[i]);
          KSCOUT_FULL_UNROLL for (int j = 0; j < Vectors; ++j) sum[i][j] =
              hn::MulAdd(of_a, row[j], sum[i][j]);
        }
      }
      a += a_step;
      b += b_step;
    }
  }
  KSCOUT_FULL_UNROLL for (int i = 0; i < Rows; ++i) {
    KSCOUT_FULL_UNROLL for (int j = 0; j < Vectors; ++j) {
      float* const to = args.c + i * args.ldc + j * kLanes;
      V v = sum[i][j];
      if (Masked && j == Vectors - 1) {
        if (args.accumulate) v = hn::Add(v, last.load(to));
        last.store(v, to);
      } else {
        if (args.accumulate) v = hn::Add(v, hn::LoadU(d, to));
        hn::StoreU(v, d, to);
      }
    }
  }
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
  const std::int64_t x_step = args.x_step, x_vector = args.x_vector, w_vector = args.w_vector;
  V sum[Pixels][Vectors];
  KSCOUT_FULL_UNROLL for (int i = 0; i < Pixels; ++i) {
    KSCOUT_FULL_UNROLL for (int j = 0; j < Vectors; ++j) sum[i][j] = hn::Zero(d);
  }
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
        for (std::int64_t c = 0; c < args.depth; ++c) {
          const V of_w = hn::LoadU(d, w + j * w_vector + c * kLanes);
          const LaneTable lanes = lane_table(args.lane_of, c);
          KSCOUT_FULL_UNROLL for (int i = 0; i < Pixels; ++i) {
            const auto in = load_inputs(x + i * x_step + j * x_vector, span);
            sum[i][j] = hn::MulAdd(in.at(lanes), of_w, sum[i][j]);
          }
        }
      }
    }
  };
  const ConvTaps& taps = args.taps;
  const std::int64_t w_tap = args.depth * kLanes;
  for (std::int64_t r = 0; r < taps.row_count; ++r) {
    const float* x = args.x + taps.rows[r].a + taps.first * taps.step;
    const float* w = args.w + (taps.rows[r].index + taps.first) * w_tap;
    for (std::int64_t t = 0; t < taps.count; ++t, x += taps.step, w += w_tap) multiply(x, w);
  }
  const Lanes last(Masked ? args.last : kLanes);
  KSCOUT_FULL_UNROLL for (int i = 0; i < Pixels; ++i) {
    KSCOUT_FULL_UNROLL for (int j = 0; j < Vectors; ++j) {
      float* const to = args.c + i * args.ldc + j * kLanes;
      if (Masked) {
        last.store(sum[i][j], to);
      } else {
        hn::StoreU(sum[i][j], d, to);
      }
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

template <int Rows, int Vectors>
void fill_conv_tiles(ConvKernelSet& set) {
  set.tile[0][Rows][Vectors] = conv_tile<Rows, Vectors, false>;
  set.tile[1][Rows][Vectors] = conv_tile<Rows, Vectors, true>;
  set.weight[0][Rows][Vectors] = conv_weight<Rows, Vectors, false>;
  set.weight[1][Rows][Vectors] = conv_weight<Rows, Vectors, true>;
  if constexpr (Rows > 1) fill_conv_tiles<Rows - 1, Vectors>(set);
}

template <int Pixels, int Vectors>
void fill_conv_lanes(ConvKernelSet& set) {
  set.direct[Pixels][Vectors] = conv_lanes<Pixels, Vectors, false, false>;
  set.moved[Pixels][Vectors] = conv_lanes<Pixels, Vectors, true, false>;
  if constexpr (Vectors == 1) {
    set.masked[0][Pixels] = conv_lanes<Pixels, 1, false, true>;
    set.masked[1][Pixels] = conv_lanes<Pixels, 1, true, true>;
  }
  if constexpr (Pixels > 1) fill_conv_lanes<Pixels - 1, Vectors>(set);
}

template <int Taps, int Depth>
void fill_conv_sums(ConvKernelSet& set) {
  set.sums[Taps][Depth] = conv_sums<Taps, Depth>;
  if constexpr (Taps > 1) fill_conv_sums<Taps - 1, Depth>(set);
}

/// `Rows`: rows of the largest tile of one vector; see has_outer_tile.
template <int Rows1, int Rows2, int Rows3, int Rows4, int Sums>
void fill_conv(ConvKernelSet& set) {
  set.lanes = kLanes;
  fill_conv_tiles<Rows1, 1>(set);
  fill_conv_tiles<Rows2, 2>(set);
  fill_conv_tiles<Rows3, 3>(set);
  fill_conv_tiles<Rows4, 4>(set);
  fill_conv_lanes<kMaxLanesPixels, 1>(set);
  fill_conv_lanes<Sums / 2 < kMaxLanesPixels ? Sums / 2 : kMaxLanesPixels, 2>(set);
  fill_conv_lanes<Sums / 4 < kMaxLanesPixels ? Sums / 4 : kMaxLanesPixels, 4>(set);
  fill_conv_sums<Sums, 1>(set);
  fill_conv_sums<Sums / 2, 2>(set);
  fill_conv_sums<Sums / 4, 4>(set);
  fill_conv_sums<Sums / 8, 8>(set);
  if constexpr (Sums >= 16) fill_conv_sums<Sums / 16, 16>(set);
}

}  // namespace kscout::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
