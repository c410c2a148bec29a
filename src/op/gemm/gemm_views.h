#pragma once
/// \file
/// Computes where the elements of a GEMM's operands are in memory.
///
///     const MatrixView c = view_c(problem);
///     std::int64_t index = c.at(item, row, column);
#include <kscout/problem.h>

#include "instruments/matrix_view.h"

namespace kscout {

MatrixView view_a(const GemmProblem& problem) noexcept;
MatrixView view_b(const GemmProblem& problem) noexcept;
MatrixView view_c(const GemmProblem& problem) noexcept;

}  // namespace kscout
