#pragma once
// Shared by the kernels of a generated CUTLASS library: messages, the device, strides by element type.
#include <cstdint>
#include <cstdio>

#include <cuda_runtime.h>

#include "cutlass/cutlass.h"
#include "kscout/kernel_library.h"

namespace kscout_cutlass {

inline std::int32_t refuse(kscout_kernel_message message, std::int32_t status, const char* text) {
  if (message.size > 0) std::snprintf(message.text, message.size, "%s", text);
  return status;
}

/// Converts a status of CUTLASS to the ABI's. `refused`: the status for arguments that CUTLASS rejects.
inline std::int32_t told(kscout_kernel_message message, cutlass::Status status) {
  if (status == cutlass::Status::kSuccess) return KSCOUT_KERNEL_OK;
  const bool refused = status == cutlass::Status::kErrorMisalignedOperand ||
                       status == cutlass::Status::kErrorInvalidProblem ||
                       status == cutlass::Status::kErrorNotSupported;
  return refuse(message, refused ? KSCOUT_KERNEL_UNSUPPORTED : KSCOUT_KERNEL_FAILED,
                cutlass::cutlassGetStatusString(status));
}

/// Multiprocessors of the current device; queried once.
inline int multiprocessors() {
  static const int count = [] {
    int device = 0, found = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&found, cudaDevAttrMultiProcessorCount, device);
    return found;
  }();
  return count;
}

/// What is applied to elements of C after the bias.
enum class Activation : std::int32_t { none, relu, gelu };

/// How blocks share the K of a tile; in the order of the words of axis `decomposition`.
enum class Decomposition : std::int32_t { none, split_k, stream_k };

/// Whether the sizes fit into int, which CUTLASS uses.
inline bool fits_int(const kscout_kernel_shape& s) {
  constexpr std::int64_t kMax = INT32_MAX;
  return s.m <= kMax && s.n <= kMax && s.k <= kMax && s.batch <= kMax;
}

/// Requirements of this kind of kernel on every shape, checked before CUTLASS's own.
inline std::int32_t check_shape(const kscout_kernel_shape& s, kscout_kernel_message message) {
  if (s.m < 1 || s.n < 1 || s.k < 1)
    return refuse(message, KSCOUT_KERNEL_UNSUPPORTED, "m, n and k of at least 1");
  if (!fits_int(s)) return refuse(message, KSCOUT_KERNEL_UNSUPPORTED, "sizes below 2^31");
  return KSCOUT_KERNEL_OK;
}

inline std::int32_t check_call(const kscout_kernel_call& call, bool reads_c, kscout_kernel_message message) {
  if (call.beta != 0 && !reads_c)
    return refuse(message, KSCOUT_KERNEL_UNSUPPORTED, "compiled without reading C: beta is 0");
  return KSCOUT_KERNEL_OK;
}

/// Bytes of workspace, if CUTLASS accepts the arguments. Otherwise `bytes` is not written.
template <class Gemm>
std::int32_t ask_workspace(const typename Gemm::Arguments& args, std::uint64_t* bytes,
                           kscout_kernel_message message) {
  if (const auto can = Gemm::can_implement(args); can != cutlass::Status::kSuccess) return told(message, can);
  *bytes = Gemm::get_workspace_size(args);
  return KSCOUT_KERNEL_OK;
}

template <class Gemm>
std::int32_t launch(const typename Gemm::Arguments& args, const kscout_kernel_call& call,
                    kscout_kernel_message message) {
  Gemm gemm;
  const auto stream = static_cast<cudaStream_t>(call.stream);
  if (const auto made = gemm.initialize(args, call.workspace, stream); made != cutlass::Status::kSuccess)
    return told(message, made);
  return told(message, gemm.run(stream));
}

}  // namespace kscout_cutlass
