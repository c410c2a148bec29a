// Implements the transforms of kind wino for one target: F(2x2, 3x3) of A. Lavin and S. Gray, "Fast
// Algorithms for Convolutional Neural Networks", arXiv:1509.09308.
#include "backend/cpu/common/lanes-inl.h"
#include "backend/cpu/conv/conv_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace kscout::cpu::HWY_NAMESPACE {

/// Calls use(first, load, store) for whole vectors, then for the rest.
template <class Use>
HWY_INLINE void for_vectors(std::int64_t count, const Use& use) {
  std::int64_t at = 0;
  for (; at + kLanes <= count; at += kLanes) {
    use(
        at, [](const float* from) HWY_ATTR { return hn::LoadU(d, from); },
        [](V v, float* to) HWY_ATTR { hn::StoreU(v, d, to); });
  }
  if (at == count) return;
  const Lanes rest(count - at);
  use(
      at, [&](const float* from) HWY_ATTR { return rest.load(from); },
      [&](V v, float* to) HWY_ATTR { rest.store(v, to); });
}

inline void winograd_input(const WinogradInputArgs& args) {
  for_vectors(args.channels, [&](std::int64_t c, const auto& load, const auto& store) HWY_ATTR {
    V half[4][4];
    KSCOUT_FULL_UNROLL for (int j = 0; j < 4; ++j) {
      const V x0 = load(args.from[j] + c), x1 = load(args.from[4 + j] + c);
      const V x2 = load(args.from[8 + j] + c), x3 = load(args.from[12 + j] + c);
      half[0][j] = hn::Sub(x0, x2);
      half[1][j] = hn::Add(x1, x2);
      half[2][j] = hn::Sub(x2, x1);
      half[3][j] = hn::Sub(x1, x3);
    }
    float* const to = args.to + c;
    KSCOUT_FULL_UNROLL for (int i = 0; i < 4; ++i) {
      store(hn::Sub(half[i][0], half[i][2]), to + (4 * i) * args.step);
      store(hn::Add(half[i][1], half[i][2]), to + (4 * i + 1) * args.step);
      store(hn::Sub(half[i][2], half[i][1]), to + (4 * i + 2) * args.step);
      store(hn::Sub(half[i][1], half[i][3]), to + (4 * i + 3) * args.step);
    }
  });
}

inline void winograd_filter(const WinogradFilterArgs& args) {
  const V half_of = hn::Set(d, 0.5F);
  // g0, (g0 + g1 + g2) / 2, (g0 - g1 + g2) / 2, g2.
  const auto spread = [&](V g0, V g1, V g2, V* to) HWY_ATTR {
    const V ends = hn::Mul(half_of, hn::Add(g0, g2)), middle = hn::Mul(half_of, g1);
    to[0] = g0;
    to[1] = hn::Add(ends, middle);
    to[2] = hn::Sub(ends, middle);
    to[3] = g2;
  };
  for (std::int64_t at = 0; at < args.count; at += kLanes) {
    V rows[3][4];
    KSCOUT_FULL_UNROLL for (int i = 0; i < 3; ++i) {
      const float* const from = args.from + 3 * i * args.from_step + at;
      spread(hn::LoadU(d, from), hn::LoadU(d, from + args.from_step), hn::LoadU(d, from + 2 * args.from_step),
             rows[i]);
    }
    KSCOUT_FULL_UNROLL for (int j = 0; j < 4; ++j) {
      V column[4];
      spread(rows[0][j], rows[1][j], rows[2][j], column);
      KSCOUT_FULL_UNROLL for (int i = 0; i < 4; ++i) {
        hn::StoreU(column[i], d, args.to + (4 * i + j) * args.to_step + at);
      }
    }
  }
}

inline void winograd_output(const WinogradOutputArgs& args) {
  for_vectors(args.channels, [&](std::int64_t c, const auto&, const auto& store) HWY_ATTR {
    V half[2][4];
    KSCOUT_FULL_UNROLL for (int j = 0; j < 4; ++j) {
      const auto load = [&](int i) HWY_ATTR { return hn::LoadU(d, args.from + (4 * i + j) * args.step + c); };
      const V m1 = load(1), m2 = load(2);
      half[0][j] = hn::Add(load(0), hn::Add(m1, m2));
      half[1][j] = hn::Sub(hn::Sub(m1, m2), load(3));
    }
    KSCOUT_FULL_UNROLL for (int i = 0; i < 2; ++i) {
      const V left = hn::Add(half[i][0], hn::Add(half[i][1], half[i][2]));
      const V right = hn::Sub(hn::Sub(half[i][1], half[i][2]), half[i][3]);
      if (args.to[2 * i]) store(left, args.to[2 * i] + c);
      if (args.to[2 * i + 1]) store(right, args.to[2 * i + 1] + c);
    }
  });
}

inline void fill_winograd(ConvKernels& set) {
  set.winograd_input = winograd_input;
  set.winograd_filter = winograd_filter;
  set.winograd_output = winograd_output;
}

}  // namespace kscout::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
