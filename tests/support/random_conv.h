#pragma once
// Random convolutions, small enough for a triple loop in float64.
#include <cstdint>

#include <kscout/conv_problem.h>

#include "support/random_gemm.h"

namespace kscout::test {

/// Groups, depthwise with and without multiplier, strides, dilations, uneven pads, pads wider than the
/// filter, 1-D (h = 1), 3-D, filters packed once and per call; a few thousand to a few million products.
inline ConvProblem random_conv(Rng& rng, Op op) {
  for (;;) {
    const bool deep = pick(rng, 0, 4) == 0;
    ConvProblem p = make_conv(op, DType::fp32, deep ? Layout::ndhwgc : Layout::nhwgc);
    p.n = pick(rng, 1, 3);
    p.g = one_of(rng, {1, 1, 1, 2, 3, 8, 16, 33});
    p.c = p.g * one_of(rng, {1, 1, 2, 3, 4, 5, 8, 16, 24, 40});
    p.k = p.g * one_of(rng, {1, 1, 2, 3, 4, 7, 8, 16, 17, 48});
    const bool flat = pick(rng, 0, 5) == 0;
    p.h = flat ? 1 : pick(rng, 1, 14);
    p.w = pick(rng, 1, flat ? 60 : 20);
    p.d = deep ? pick(rng, 1, 5) : 1;
    p.y = flat ? 1 : pick(rng, 1, 5);
    p.x = pick(rng, 1, 5);
    p.z = deep ? pick(rng, 1, 3) : 1;
    p.stride_h = flat ? 1 : one_of(rng, {1, 1, 1, 2, 3});
    p.stride_w = one_of(rng, {1, 1, 1, 2, 3, 4});
    p.stride_d = deep ? pick(rng, 1, 2) : 1;
    p.dilation_h = flat ? 1 : one_of(rng, {1, 1, 1, 2, 3});
    p.dilation_w = one_of(rng, {1, 1, 1, 2, 3});
    p.dilation_d = deep ? pick(rng, 1, 2) : 1;
    if (pick(rng, 0, 3) != 0) {
      p.left_pad_h = flat ? 0 : pick(rng, 0, 3);
      p.right_pad_h = flat ? 0 : pick(rng, 0, 3);
      p.left_pad_w = pick(rng, 0, 6);
      p.right_pad_w = pick(rng, 0, 6);
      p.left_pad_d = deep ? pick(rng, 0, 2) : 0;
      p.right_pad_d = deep ? pick(rng, 0, 2) : 0;
    }
    if (pick(rng, 0, 4) == 0) {  // a plain product
      p.z = p.y = p.x = p.stride_d = p.stride_h = p.stride_w = 1;
      p.left_pad_d = p.left_pad_h = p.left_pad_w = p.right_pad_d = p.right_pad_h = p.right_pad_w = 0;
    }
    if (op != Op::conv_bwd_weight) p.prepacked = pick(rng, 0, 1) == 0;
    if (pick(rng, 0, 4) == 0) {  // kind wino
      p.y = p.x = 3;
      p.z = p.stride_d = p.stride_h = p.stride_w = p.dilation_h = p.dilation_w = 1;
      p.left_pad_d = p.right_pad_d = 0;
      if (pick(rng, 0, 3) != 0) p.c *= 4, p.k *= 4;
    }
    if (is_valid(p) && flop_count(p) < 2e7) return p;
  }
}

}  // namespace kscout::test
