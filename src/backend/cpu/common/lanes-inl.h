#pragma once
// Loads and stores the first lanes of a vector. Include outside of any namespace.
#include <cstring>

#include "core/isa-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kscout::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
inline constexpr D d;
inline constexpr int kLanes = static_cast<int>(HWY_LANES(float));

#if HWY_COMPILER_CLANG
#define KSCOUT_FULL_UNROLL _Pragma("clang loop unroll(full)")
#define KSCOUT_UNROLL_4 _Pragma("clang loop unroll_count(4)")
#else
#define KSCOUT_FULL_UNROLL _Pragma("GCC unroll 32")
#define KSCOUT_UNROLL_4 _Pragma("GCC unroll 4")
#endif

// x86 guarantees that masked-off lanes of AVX2 and AVX-512 loads never fault (Intel SDM, VMASKMOV and
// "Masking in Instruction Encoding"), so these functions access only the lanes that they name.
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
struct Lanes {
  hn::Mask<D> mask;
  explicit HWY_INLINE Lanes(std::int64_t count) : mask(hn::FirstN(d, static_cast<std::size_t>(count))) {}
  HWY_INLINE V load(const float* from) const { return hn::MaskedLoad(mask, d, from); }
  HWY_INLINE void store(V v, float* to) const { hn::BlendedStore(v, mask, d, to); }
};
#else
struct Lanes {
  std::int64_t count;
  explicit HWY_INLINE Lanes(std::int64_t lanes) : count(lanes) {}
  HWY_INLINE V load(const float* from) const {
    HWY_ALIGN float buffer[kLanes] = {};
    for (std::int64_t i = 0; i < count; ++i) buffer[i] = from[i];
    return hn::Load(d, buffer);
  }
  HWY_INLINE void store(V v, float* to) const {
    HWY_ALIGN float buffer[kLanes];
    hn::Store(v, d, buffer);
    for (std::int64_t i = 0; i < count; ++i) to[i] = buffer[i];
  }
};
#endif

}  // namespace kscout::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
