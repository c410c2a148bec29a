#pragma once
/// \file
/// Computes where the elements of a GEMM's operands are in memory.
///
///     const MatrixView c = view_c(problem);
///     std::int64_t index = c.at(item, row, column);
#include <kscout/any_problem.h>

#include "instruments/matrix_view.h"

namespace kscout {

MatrixView view_a(const GemmProblem& problem) noexcept;
MatrixView view_b(const GemmProblem& problem) noexcept;
MatrixView view_c(const GemmProblem& problem) noexcept;

/// The items of a batch of GEMMs; 1 for other operations.
inline std::int64_t batch_of(const ProblemRef& problem) noexcept {
  if (const auto* const gemm = problem.struct_of<GemmProblem>()) return gemm->batch;
  return problem.is<GemmProblem>() ? product_of(problem).groups : 1;
}

}  // namespace kscout
