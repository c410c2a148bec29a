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
/// loads take them: sizes rounded up to whole 128 bytes, and to whole 16 bytes. None where all lines begin so
/// already. Gaps behind the lines would do for the tensor memory accelerator, but cuBLASLt's algorithms also
/// want the sizes.
void for_each_aligned_form(const GemmProblem& problem, const std::function<void(const ExecutionForm&)>& add);

}  // namespace kscout
