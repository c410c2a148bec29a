#pragma once
/// \file
/// Packs the identity of a convolution; `extra` (below 256) belongs to the key that the words are part of.
///
///     const ProblemWords words = problem_words(rest, problem, extra);
#include <kscout/conv_problem.h>

#include "op/packed_words.h"

namespace kscout {

inline ProblemWords problem_words(std::uint64_t& rest, const ConvProblem& c, int extra) noexcept {
  constexpr int kKind = static_cast<int>(ProblemOf<ConvProblem>::kind);  // this word is 0 for a GEMM
  const int stored = 2 * static_cast<int>(c.epilogue) + static_cast<int>(c.prepacked);
  return {packed<32>(rest, c.n, c.c),
          packed<32>(rest, c.k, c.g),
          packed<16>(rest, c.d, c.h, c.w, c.split_k),
          packed<8>(rest, c.z, c.y, c.x, c.stride_d, c.stride_h, c.stride_w, c.dilation_d, c.dilation_h),
          packed<8>(rest, c.dtype_in, c.dtype_wei, c.dtype_out, c.dtype_acc, c.layout, c.op, stored, extra),
          packed<8>(rest, kKind, c.dilation_w, c.left_pad_d, c.left_pad_h, c.left_pad_w, c.right_pad_d,
                    c.right_pad_h, c.right_pad_w)};
}

}  // namespace kscout
