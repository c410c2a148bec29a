#pragma once
/// \file
/// Turns calls of cuBLAS and cuBLASLt into GEMM problems.
///
///     GemmProblem problem;
///     if (const Unread why = read(call, library, problem); why == Unread::none) count(problem);
///
/// cuBLAS is column-major: C = A B. The same memory, read row by row, is C' = B' A', so KernelScout's A is
/// the call's B, its m the call's n, and an operand that the call does not transpose is row-major.
#include <array>
#include <cstdint>
#include <string_view>

#include <kscout/problem.h>

#include "preload/calls.h"

namespace kscout::preload {

/// Why a call is no problem of KernelScout.
enum class Unread : std::uint8_t {
  none,
  factors,
  types,
  compute,
  epilogue,
  order,
  scales,
  batch,
  sizes,
  descriptors,
};
inline constexpr std::array<std::string_view, 10> kUnreadWords = {
    "",
    "alpha or beta in the GPU's memory",
    "types that KernelScout has no name for, or C and D of different types",
    "a compute type or math mode other than those of fp64, fp32, tf32, fp16 and int32",
    "an epilogue other than none, bias, relu and gelu",
    "a matrix that is not column-major",
    "scales for parts of a matrix",
    "a batch whose items share an operand",
    "sizes or leading dimensions that are empty or wrong",
    "descriptors that cannot be read",
};

/// Functions that read what a call refers to; null where the library lacks one.
struct Library {
  int (*get_math_mode)(void* handle, int* mode) = nullptr;
  int (*get_pointer_mode)(void* handle, int* mode) = nullptr;
  int (*get_operation)(void* operation, int attribute, void* value, std::size_t bytes,
                       std::size_t* written) = nullptr;
  int (*get_matrix)(void* matrix, int attribute, void* value, std::size_t bytes,
                    std::size_t* written) = nullptr;
};

/// Sets `problem`, unless a reason is returned.
Unread read(const kscout_gemm_call& call, const Library& library, GemmProblem& problem) noexcept;
Unread read(const kscout_matmul_call& call, const Library& library, GemmProblem& problem) noexcept;

}  // namespace kscout::preload
