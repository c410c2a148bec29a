#pragma once
/// \file
/// Declares the part of bench/gemm_cuda.cpp that times decisions.
#include <span>

#include <kscout/problem.h>
#include <kscout/selector.h>

namespace kscout::bench {

/// Prints the time of a decision: the selector for a new problem, with and without cuBLASLt's heuristic
/// knowing it, and cached; beside the heuristic on the first and on a repeated call; ends with RESULT lines.
/// Opens the GPU.
void compare_deciding(Selector& selector, std::span<const GemmProblem> problems);

}  // namespace kscout::bench
