#pragma once
/// \file
/// Refuses operands that share memory with the result: a kernel reads A and B while it writes C.
///
///     refuse_aliases(problem, buffers);   // throws invalid_argument naming the two operands
#include <kscout/backend.h>

namespace kscout {

/// The problem must be valid and its result not empty. Views whose lines interleave without a common element
/// (column blocks of one matrix) are allowed, and so are A and B in the same memory.
void refuse_aliases(ProblemRef problem, const Buffers& buffers);

}  // namespace kscout
