#pragma once
/// \file
/// Lists the forms of a convolution: more channels per group, images in another layout.
///
///     for_each_form(problem, MemoryKind::host, [&](const ExecutionForm& form) { ... });
#include <functional>

#include "op/forms.h"

namespace kscout {

CopiedOperands copied_operands(const ConvProblem& problem, const ExecutionForm& form);

/// c/g and k/g rounded up to multiples of 2 to 256, each alone and together (with a bias, c/g alone: a bias
/// has k numbers); in the CPU's memory, all of these and the unpadded problem with images in the other layout
/// (channels last or first). Some forms come several times.
void for_each_form(const ConvProblem& problem, MemoryKind memory,
                   const std::function<void(const ExecutionForm&)>& add);

}  // namespace kscout
