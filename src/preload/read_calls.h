#pragma once
/// \file
/// Turns calls of cuBLAS, cuBLASLt and a BLAS into GEMM problems.
///
///     ProductCall product;
///     if (const Unread why = read(call, library, product); why == Unread::none) count(product.problem);
///
/// cuBLAS is column-major: C = A B. The same memory, read row by row, is C' = B' A', so KernelScout's A is
/// the call's B, its m the call's n, and an operand that the call does not transpose is row-major.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <kscout/launch.h>
#include <kscout/problem.h>

#include "preload/calls.h"

namespace kscout::preload {

/// Why a call is no problem of KernelScout.
enum class Unread : std::uint8_t {
  none,
  types,
  compute,
  epilogue,
  order,
  scales,
  batch,
  sizes,
  descriptors,
  graph,
  tensors,
  integers,
};
inline constexpr std::array<std::string_view, 12> kUnreadWords = {
    "",
    "types that KernelScout has no name for, or C and D of different types",
    "a compute type or math mode other than those of fp64, fp32, tf32, fp16 and int32",
    "an epilogue other than none, bias, relu and gelu",
    "a matrix that is not column-major",
    "scales for parts of a matrix",
    "a batch whose items share an operand",
    "sizes, leading dimensions, factors or words that are empty or wrong",
    "descriptors that cannot be read",
    "a plan of cuDNN other than one convolution with alpha 1 and beta 0",
    "a convolution whose tensors are not all channels-last or all channels-first, or have gaps",
    "a BLAS of which nobody knows whether its integers have 32 or 64 bits",
};

/// What becomes of a product whose problem is known: it is served, or left to the library, and why.
enum class Outcome : std::uint8_t {
  served,
  // the call
  precision,
  factors,
  gpu_factors,
  share,
  scales,
  addend,
  strides,
  bias,
  address,
  nothing,
  // the choice
  small,
  model,
  gain,
  slower,
  release,
  wrong,
  kernel,
  // the moment
  timed,
  searching,
  preparing,
  off,
  gpu,
  capture,
  memory,
  classes,
  forked,
  failed,
};
inline constexpr std::array<std::string_view, 28> kOutcomeWords = {
    "served",
    "a compute type or math mode that asks for the library's own arithmetic",
    "alpha and beta of another type than fp32",
    "alpha or beta in the GPU's memory",
    "a limit on the number of multiprocessors",
    "scale or amax pointers",
    "C and D are two matrices",
    "items of a batch that do not follow each other",
    "a bias of another type than D, or with a distance between the items of a batch",
    "an address that is no multiple of 16 bytes",
    "alpha is 0",
    "small products",
    "no model knows the problem",
    "the model expects too little from another choice",
    "the library's kernel was faster when both were timed",
    "the kernel needs another release of cuBLASLt",
    "the kernel's result is wrong",
    "no kernel here takes the problem",
    "timed for --refine",
    "first calls of a plan: the program may compare plans",
    "a kernel is being prepared",
    "serving is off",
    "another GPU or context than that of the first product",
    "first call of the problem, or no workspace reserved, during the capture of a graph",
    "no memory is left",
    "policy batch-invariant has no class of the weight (kscout classes)",
    "a forked child whose threads of OpenMP are its parent's",
    "our code failed",
};

/// What serving a product needs besides its problem. A and B are those of the problem: the call's B and A.
struct Operands {
  const void *a = nullptr, *b = nullptr, *bias = nullptr;
  void* c = nullptr;
  double alpha = 1, beta = 0;
  void* workspace = nullptr;  ///< the program's own; null: it gave none
  std::size_t workspace_bytes = 0;
  void* stream = nullptr;
};

/// That kernels of ours need of a line or of a bias, unless they take any address.
inline constexpr std::uintptr_t kLineAlignment = 16;
inline bool is_aligned(const void* address, std::uintptr_t alignment) noexcept {
  return reinterpret_cast<std::uintptr_t>(address) % alignment == 0;
}
inline GemmBuffers buffers_of(const Operands& on, const MemorySpace& space) noexcept {
  return {
      .a = on.a, .b = on.b, .c = on.c, .alpha = on.alpha, .beta = on.beta, .bias = on.bias, .space = space};
}

/// A product, by which decisions about it are found (decide.h).
struct ProductKey {
  GemmProblem problem;  ///< where beta lies in the GPU's memory: as if it were 0
  bool operator==(const ProductKey&) const = default;
};
/// A few multiplications: std::hash of all fields takes longer than the rest of a call.
inline std::size_t quick_hash(const ProductKey& key) noexcept {
  const GemmProblem& p = key.problem;
  std::size_t hash = 0;
  for (const std::int64_t size : {p.m, p.n, p.k, p.batch, p.lda, p.ldb, p.ldc})
    hash = (hash + static_cast<std::size_t>(size)) * 0x9e3779b97f4a7c15;
  for (const auto word : {static_cast<int>(p.dtype_a), static_cast<int>(p.dtype_c),
                          static_cast<int>(p.layout), static_cast<int>(p.accumulate)})
    hash = hash * 31 + static_cast<std::size_t>(word);
  return hash ^ (hash >> 32);
}

/// The name of a function, as programs call it.
const char* entry_name(kscout_entry entry) noexcept;
/// Whether the function is one of a BLAS on the CPU, which is any library.
bool is_on_cpu(kscout_entry entry) noexcept;

/// Functions that read what a call refers to; null where the library lacks one.
struct Library {
  int (*get_math_mode)(void* handle, int* mode) = nullptr;
  int (*get_pointer_mode)(void* handle, int* mode) = nullptr;
  int (*get_stream)(void* handle, void** stream) = nullptr;
  int (*get_sm_count)(void* handle, int* multiprocessors) = nullptr;
  int (*get_operation)(void* operation, int attribute, void* value, std::size_t bytes,
                       std::size_t* written) = nullptr;
  int (*get_matrix)(void* matrix, int attribute, void* value, std::size_t bytes,
                    std::size_t* written) = nullptr;
};

/// What the library's choice of a kernel may depend on besides the problem.
struct CallDetails {
  std::int64_t stride_a = 0, stride_b = 0, stride_c = 0;  ///< of batches, for the problem's A, B and C
  std::int32_t compute = 0, scale_type = 0, math_mode = 0, multiprocessors = 0;
  std::uint8_t scales = 0;        ///< a bit for each scale or amax pointer
  bool has_other_scales = false;  ///< for parts of a matrix
  bool has_gpu_factors = false;   ///< alpha and beta lie in the GPU's memory
  bool is_in_place = true;        ///< a C that is added lies as D does
  bool operator==(const CallDetails&) const = default;
};

/// A call of a GPU's library, read once for all who need something of it.
struct ProductCall : ProductKey {
  ProductCall() noexcept {}  // NOLINT: "= default" would clear it as a whole, with a slow "rep stos"
  CallDetails details;
  Operands operands;                  ///< the workspace of a handle of cuBLAS is the caller's matter
  Outcome outcome = Outcome::served;  ///< another: why only the library can compute it
};

/// The type of alpha and beta (a cudaDataType_t) in cuBLAS, by the compute type.
int scale_type_of(int compute) noexcept;
/// The compute type that cuBLASLt has for a call of cuBLAS.
int lt_compute_of(const kscout_gemm_call& call, int math_mode) noexcept;

/// Sets `found`, a new one; where a reason is returned, it means nothing.
Unread read(const kscout_gemm_call& call, const Library& library, ProductCall& found) noexcept;
Unread read(const kscout_matmul_call& call, const Library& library, ProductCall& found) noexcept;
Unread read(const kscout_blas_call& call, ProductKey& found) noexcept;
/// Whether the library will refuse a call that read() accepted, because it has scales of types without
/// scales. Only calls that are about to be served need to know.
bool has_refused_scales(const kscout_matmul_call& call, const Library& library,
                        const ProductCall& product) noexcept;
inline bool has_refused_scales(const kscout_gemm_call&, const Library&, const ProductCall&) noexcept {
  return false;
}
Operands operands_of(const kscout_blas_call& call) noexcept;

}  // namespace kscout::preload
