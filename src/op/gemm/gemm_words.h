#pragma once
/// \file
/// Packs the identity of a GEMM; `extra` (below 256) belongs to the key that the words are part of.
///
///     const ProblemWords words = problem_words(rest, problem, extra);
#include <kscout/problem.h>

#include "op/packed_words.h"

namespace kscout {

inline ProblemWords problem_words(std::uint64_t& rest, const GemmProblem& p, int extra) noexcept {
  return {packed<32>(rest, p.m, p.n),
          packed<32>(rest, p.k, p.batch),
          packed<32>(rest, p.lda, p.ldb),
          packed<32>(rest, p.ldc, p.split_k),
          packed<8>(rest, p.dtype_a, p.dtype_b, p.dtype_c, p.dtype_acc, p.layout, p.epilogue, p.accumulate,
                    extra),
          0};
}

}  // namespace kscout
