#pragma once
/// \file
/// The two halves of bench/gemm_cuda.cpp.
#include <span>

#include <kscout/problem.h>
#include <kscout/selector.h>

namespace kscout::bench {

/// Prints what it takes to decide: the selector, cold and cached, beside cuBLASLt's heuristic asked for the
/// first time and again; ends with RESULT lines. Opens the GPU.
void compare_deciding(Selector& selector, std::span<const GemmProblem> problems);

}  // namespace kscout::bench
