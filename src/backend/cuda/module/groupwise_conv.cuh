#pragma once
/// \file
/// What all kernels of groupwise_conv.h share. Included by their sources alone.
#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "backend/cuda/module/groupwise_geometry.h"

namespace kscout::cuda {

/// A 16-bit element, bf16 or fp16.
using Element = std::uint16_t;

/// The walks of all classes, by axis: depth, height, width.
struct Walks {
  Walk of[3][kMaxClasses];
  std::int32_t classes[3];
};

/// Divides numbers below 2^31 by one divisor (Granlund and Montgomery, PLDI 1994).
struct FastDivisor {
  std::uint32_t divisor = 1, factor = 0, shift = 0;
  FastDivisor() = default;
  explicit FastDivisor(std::int32_t by) : divisor(static_cast<std::uint32_t>(by)) {
    while ((std::uint64_t{1} << shift) < divisor) ++shift;
    factor = static_cast<std::uint32_t>(
        ((std::uint64_t{1} << 32) * ((std::uint64_t{1} << shift) - divisor)) / divisor + 1);
  }
#ifdef __CUDACC__
  __device__ std::uint32_t quotient(std::uint32_t n) const { return (__umulhi(n, factor) + n) >> shift; }
#endif
};

#ifdef __CUDACC__
__device__ inline float to_float(std::uint32_t element, bool bf16) {
  if (bf16) return __uint_as_float(element << 16);
  return __half2float(__ushort_as_half(static_cast<unsigned short>(element)));
}
__device__ inline Element to_element(float value, bool bf16) {
  return bf16 ? __bfloat16_as_ushort(__float2bfloat16_rn(value)) : __half_as_ushort(__float2half_rn(value));
}
__device__ inline std::uint32_t to_elements(float low, float high, bool bf16) {
  return to_element(low, bf16) | static_cast<std::uint32_t>(to_element(high, bf16)) << 16;
}
#endif

}  // namespace kscout::cuda
