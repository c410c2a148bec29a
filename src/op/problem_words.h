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

/// The words of a problem of another operation, at most ten fields of 32 bits. Sets `rest` for others.
ProblemWords generic_words(std::uint64_t& rest, const Problem& problem, int extra) noexcept;

template <ProblemStruct... P>
inline ProblemWords words_as(std::uint64_t& rest, const ProblemRef& problem, int extra) noexcept {
  ProblemWords words{};
  const auto from_struct = [&]<class S>(const S* known) {
    if (known) words = problem_words(rest, *known, extra);
    return known != nullptr;
  };
  if ((from_struct(problem.struct_of<P>()) || ...)) return words;
  const auto from_record = [&]<class S>(const S* /*kind*/) {
    if (problem.is<S>()) words = problem_words(rest, problem.as<S>(), extra);
    return problem.is<S>();
  };
  if ((from_record(static_cast<const P*>(nullptr)) || ...)) return words;
  return generic_words(rest, problem.value(), extra);
}

inline ProblemWords words_of_any(std::uint64_t& rest, const ProblemRef& problem, int extra) noexcept {
  return words_as<GemmProblem, ConvProblem>(rest, problem, extra);
}

}  // namespace kscout
