#pragma once
// Shared by the kernels of a generated CK Tile library: messages and streams.
#include <cstdint>
#include <cstdio>
#include <exception>

#include <hip/hip_runtime.h>

#include "ck_tile/core.hpp"
#include "ck_tile/host/kernel_launch.hpp"
#include "generation.hpp"
#include "kscout/kernel_library.h"

namespace kscout_ck {

inline std::int32_t refuse(kscout_kernel_message message, std::int32_t status, const char* text) {
  if (message.size > 0) std::snprintf(message.text, message.size, "%s", text);
  return status;
}

/// CK Tile reports errors by exceptions, which must not leave a C function.
template <class F>
std::int32_t guarded(kscout_kernel_message message, F&& body) noexcept {
  try {
    return body();
  } catch (const std::exception& error) {
    return refuse(message, KSCOUT_KERNEL_FAILED, error.what());
  } catch (...) {
    return refuse(message, KSCOUT_KERNEL_FAILED, "CK Tile threw what is no std::exception");
  }
}

/// A stream configuration that only launches: no timing, no waiting.
inline ck_tile::stream_config launch_on(void* stream) {
  return ck_tile::stream_config{static_cast<hipStream_t>(stream), false};
}

inline bool zero(void* memory, std::uint64_t bytes, void* stream) {
  return hipMemsetAsync(memory, 0, bytes, static_cast<hipStream_t>(stream)) == hipSuccess;
}

/// The two functions of a kernel in the library's table, the same for every kind of kernel. `Kind` derives
/// from this class and provides three functions. A text that they return names an error and is null on
/// success:
///   refusal(shape)         why the kernel does not support a shape
///   workspace_of(shape)    bytes, for a supported shape
///   start(shape, call)     enqueues the computation in the stream; returns why that failed
template <class Kind>
struct Entry {
  static std::int32_t workspace_bytes(const kscout_kernel*, const kscout_kernel_shape* shape,
                                      std::uint64_t* bytes, kscout_kernel_message message) {
    return guarded(message, [&] {
      if (const char* const why = Kind::refusal(*shape))
        return refuse(message, KSCOUT_KERNEL_UNSUPPORTED, why);
      *bytes = Kind::workspace_of(*shape);
      return std::int32_t{KSCOUT_KERNEL_OK};
    });
  }

  static std::int32_t run(const kscout_kernel*, const kscout_kernel_shape* shape,
                          const kscout_kernel_call* call, kscout_kernel_message message) {
    return guarded(message, [&] {
      if (call->alpha != 1 || call->beta != 0)
        return refuse(message, KSCOUT_KERNEL_UNSUPPORTED, "alpha is 1 and beta 0 for these kernels");
      if (const char* const why = Kind::start(*shape, *call))
        return refuse(message, KSCOUT_KERNEL_FAILED, why);
      return std::int32_t{KSCOUT_KERNEL_OK};
    });
  }
};

}  // namespace kscout_ck
