#pragma once
/// \file
/// Runs OpenBLAS and oneDNN, with which CPU benchmarks compare: the wheels BENCH_WHEELS of ./dev.
///
///     fmt::print("{}\n{}\n", openblas_about(), onednn_about());
///     match.add({.name = "openblas", .peer = true, .call = openblas_gemm(problem, a, b, c)});
///
/// OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE have no effect: OpenBLAS is loaded at its first use, after they are
/// unset.
#include <functional>
#include <string>

#include <kscout/problem.h>

namespace kscout::bench {

/// Version and kernels, "oneDNN 3.2.0, kernels avx512_core_bf16". Throws unsupported when the kernels are
/// below the instruction set of ours.
std::string openblas_about();
std::string onednn_about();

/// Computes C = A B of a problem in fp32 on as many threads as the device has cores.
std::function<void()> openblas_gemm(const GemmProblem& problem, const float* a, const float* b, float* c);
/// The same, on as many threads as OpenMP has.
std::function<void()> onednn_gemm(const GemmProblem& problem, const float* a, const float* b, float* c);

}  // namespace kscout::bench
