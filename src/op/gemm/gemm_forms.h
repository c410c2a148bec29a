#pragma once
/// \file
/// Lists the forms of a GEMM: larger sizes, packed operands, one batch item at a time.
///
///     for_each_form(problem, [&](const ExecutionForm& form) { ... });
#include <functional>

#include "op/forms.h"
#include "op/gemm/gemm_views.h"

namespace kscout {

CopiedOperands copied_operands(const GemmProblem& problem, const ExecutionForm& form);

/// Each choice of m, n, k rounded up to multiples of 2 to 256, once with only the copied operands packed and
/// once with every operand packed; and all of these for one batch item at a time. Some forms come several
/// times.
void for_each_form(const GemmProblem& problem, const std::function<void(const ExecutionForm&)>& add);

/// Forms in which the lines of every operand begin at multiples of 16 bytes, so that kernels with vector
/// loads take them: gaps behind the lines of A and B, and sizes rounded up; each for lines of whole 128 bytes
/// and of whole 16 bytes. Gaps need fewer copies, but do not help where lines of C are unaligned: cuBLASLt's
/// fast kernels then refuse the size. None where all lines are aligned.
void for_each_aligned_form(const GemmProblem& problem, const std::function<void(const AlignedForm&)>& add);

}  // namespace kscout
