#pragma once
/// \file
/// Reports errors of CUDA calls, and reads a GPU's facts from the driver.
#include <cstdint>
#include <cstdio>

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <kscout/types.h>

#include "backend/cuda/module.h"
#include "instruments/instruments.h"

namespace kscout::cuda {

/// Text of the last failure in this thread.
inline char* error_text() {
  static thread_local char text[512] = "";
  return text;
}

/// `format` and the arguments after it are those of printf.
template <class... Args>
CallStatus answer(CallStatus what, const char* format, Args... args) {
  if constexpr (sizeof...(args) == 0) {
    std::snprintf(error_text(), 512, "%s", format);
  } else {
    std::snprintf(error_text(), 512, format, args...);
  }
  return what;
}

inline CallStatus check_cuda(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return CallStatus::done;
  return answer(CallStatus::failed, "%s: %s", what, cudaGetErrorString(status));
}

// ---- Reads the driver's facts and the current state of a GPU.

CallStatus read_facts(std::int32_t device, Facts& facts);
/// Reads the state of the open device through NVML; unsupported where that library is missing.
CallStatus read_state(std::int32_t device, State& state);

}  // namespace kscout::cuda
