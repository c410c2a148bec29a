#pragma once
/// \file
/// Checks the operands of a call before anything is chosen: missing ones, factors that the problem does not
/// have, results that share memory with what a kernel reads.
///
///     run(problem, checked(problem, buffers));   // throws invalid_argument naming the operand
#include <string_view>

#include <kscout/backend.h>

#include "op/operation.h"

namespace kscout {

/// Returns the buffers of a valid problem. With `packed`, the packable operand is not among them. Views whose
/// lines interleave without a common element (column blocks of one matrix) are allowed, and so are A and B in
/// the same memory. Throws invalid_argument.
const Buffers& checked(ProblemRef problem, const Buffers& buffers, bool packed = false);
/// The buffers of a run whose packable operand was packed in memory `packed_in`.
const Buffers& checked_beside_packed(ProblemRef problem, const MemorySpace& packed_in,
                                     const Buffers& buffers);

/// Throws invalid_argument for an operand without memory.
void refuse_null(ProblemRef problem, std::string_view operand, const void* memory);
/// The operand that may be packed once. The problem must have one.
Tensor packable_operand(ProblemRef problem);

}  // namespace kscout
