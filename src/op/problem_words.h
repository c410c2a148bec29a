#pragma once
/// \file
/// Packs the identity of a problem of any operation into words.
///
///     std::uint64_t rest = 0;
///     const ProblemWords words = words_of_any(rest, problem, extra);
///     if (rest != 0) ...                                              // its numbers do not fit
///
/// Operations with a header of their own here are packed without a loop over their fields: a cached choice
/// takes little longer than that.
#include <kscout/any_problem.h>

#include "op/conv/conv_words.h"
#include "op/gemm/gemm_words.h"

namespace kscout {

/// The words of a problem without a struct. Of other operations than those below: at most ten fields of 32
/// bits, where a list counts as two; sets `rest` for more.
ProblemWords words_of_record(std::uint64_t& rest, const Problem& problem, int extra) noexcept;

template <ProblemStruct P, ProblemStruct... More>
inline ProblemWords words_of_struct(std::uint64_t& rest, const ProblemRef& problem, int extra) noexcept {
  if (const P* const known = problem.struct_of<P>()) return problem_words(rest, *known, extra);
  if constexpr (sizeof...(More) > 0) {
    return words_of_struct<More...>(rest, problem, extra);
  } else {
    return words_of_record(rest, problem.value(), extra);
  }
}

inline ProblemWords words_of_any(std::uint64_t& rest, const ProblemRef& problem, int extra) noexcept {
  return words_of_struct<GemmProblem, ConvProblem>(rest, problem, extra);
}

}  // namespace kscout
