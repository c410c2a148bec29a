#pragma once
/// \file
/// Converts element types in memory to doubles and back, to fill and read operands.
///
///     with_element(problem.dtype_a, [&]<class E>() { double x = E::load(data, i); });
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include <kscout/types.h>

#include "core/fail.h"

namespace kscout {

/// A plain C++ type. `round_off` is half the distance from 1 to the next value (0: exact). `step` is the
/// distance from 0 to the next value, the granularity of small values.
template <class T, int mantissa_bits>
struct PlainElement {
  static constexpr double round_off =
      mantissa_bits == 0 ? 0.0 : 1.0 / static_cast<double>(1LL << mantissa_bits);
  static constexpr double step =
      mantissa_bits == 0 ? 0.0 : static_cast<double>(std::numeric_limits<T>::denorm_min());
  using stored = T;
  static double load(const void* data, std::int64_t i) noexcept {
    return static_cast<double>(static_cast<const T*>(data)[i]);
  }
  static void store(void* data, std::int64_t i, double value) noexcept {
    static_cast<T*>(data)[i] = static_cast<T>(value);
  }
};

using Float64 = PlainElement<double, 53>;
using Float32 = PlainElement<float, 24>;
using Int32 = PlainElement<std::int32_t, 0>;
using Int8 = PlainElement<std::int8_t, 0>;

/// fp32 of which a tensor core reads 10 mantissa bits. Values are stored rounded, so products are exact.
struct TensorFloat32 : PlainElement<float, 11> {
  static void store(void* data, std::int64_t i, double value) noexcept {
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
    static_cast<float*>(data)[i] = std::bit_cast<float>((bits + 0x1000u) & 0xFFFFE000u);
  }
};

/// The upper half of an fp32, rounded to nearest even.
struct BFloat16 {
  static constexpr double round_off = 1.0 / 256;
  static constexpr double step = 0x1p-133;
  using stored = std::uint16_t;
  static double load(const void* data, std::int64_t i) noexcept {
    return std::bit_cast<float>(static_cast<std::uint32_t>(static_cast<const std::uint16_t*>(data)[i]) << 16);
  }
  static void store(void* data, std::int64_t i, double value) noexcept {
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
    static_cast<std::uint16_t*>(data)[i] =
        static_cast<std::uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
  }
};

/// IEEE binary16, rounded to nearest even.
struct Float16 {
  static constexpr double round_off = 1.0 / 2048;
  static constexpr double step = 0x1p-24;
  using stored = std::uint16_t;
  static double load(const void* data, std::int64_t i) noexcept {
    const std::uint32_t h = static_cast<const std::uint16_t*>(data)[i];
    const std::uint32_t exponent = (h >> 10) & 31u, mantissa = h & 1023u;
    const double sign = (h & 0x8000u) ? -1 : 1;
    if (exponent == 31) return mantissa ? std::nan("") : sign * std::numeric_limits<double>::infinity();
    if (exponent == 0) return sign * std::ldexp(mantissa, -24);
    return sign * std::ldexp(1024.0 + mantissa, static_cast<int>(exponent) - 25);
  }
  static void store(void* data, std::int64_t i, double value) noexcept {
    const std::uint32_t sign = std::signbit(value) ? 0x8000u : 0u;
    const double size = std::abs(value);
    std::uint32_t bits = 0x7C00u;  // infinity
    if (std::isnan(value)) {
      bits = 0x7E00u;
    } else if (size < 0x1p-14) {
      bits = static_cast<std::uint32_t>(std::nearbyint(std::ldexp(size, 24)));
    } else if (size < 65520) {
      int exponent = 0;
      const double fraction = std::frexp(size, &exponent);  // in [0.5, 1)
      // The mantissa's leading one adds 1 to the exponent, and so does a carry from rounding.
      bits = (static_cast<std::uint32_t>(exponent + 13) << 10) +
             static_cast<std::uint32_t>(std::nearbyint(std::ldexp(fraction, 11)));
    }
    static_cast<std::uint16_t*>(data)[i] = static_cast<std::uint16_t>(sign | bits);
  }
};

/// 8-bit floats as the Open Compute Project defines them ("OFP8", revision 1.0), with 4 or 5 exponent bits.
/// E4M3 has no infinity and one NaN per sign; too large values become the largest value, as on tensor cores.
template <int mantissa_bits, int bias, bool has_infinity>
struct Float8 {
  static constexpr double round_off = 1.0 / (1 << (mantissa_bits + 1));
  using stored = std::uint8_t;
  static constexpr int kMantissa = 1 << mantissa_bits;
  static constexpr double step = 1.0 / (1 << (bias - 1 + mantissa_bits));
  static constexpr int kLargest = has_infinity ? 0x7B : 0x7E;  ///< bits of the largest finite value

  static double load(const void* data, std::int64_t i) noexcept {
    const int bits = static_cast<const std::uint8_t*>(data)[i];
    const int size = bits & 0x7F, exponent = size / kMantissa, mantissa = size % kMantissa;
    const double sign = (bits & 0x80) ? -1 : 1;
    if (has_infinity && size == kLargest + 1) return sign * std::numeric_limits<double>::infinity();
    if (size > kLargest) return std::nan("");
    if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
    return sign * std::ldexp(kMantissa + mantissa, exponent - bias - mantissa_bits);
  }
  static void store(void* data, std::int64_t i, double value) noexcept {
    int bits = 0x7F;
    if (!std::isnan(value)) {
      int exponent = 0;
      std::frexp(value, &exponent);  // |value| in [2^(exponent-1), 2^exponent)
      const int shift = std::max(exponent - 1, 1 - bias) - mantissa_bits;
      // A carry from rounding, and the leading one of a normal number, add to the exponent's bits.
      const double steps = std::nearbyint(std::ldexp(std::abs(value), -shift));
      bits = static_cast<int>(
          std::min(steps + (shift + mantissa_bits + bias - 1.0) * kMantissa, static_cast<double>(kLargest)));
    }
    static_cast<std::uint8_t*>(data)[i] = static_cast<std::uint8_t>(bits | (std::signbit(value) ? 0x80 : 0));
  }
};
using Float8E4M3 = Float8<3, 7, false>;
using Float8E5M2 = Float8<2, 15, true>;

/// Calls fn.template operator()<Element>() for the element type of `dtype`; throws unsupported for int4,
/// which cannot be filled or read here yet.
template <class F>
decltype(auto) with_element(DType dtype, F&& fn) {
  switch (dtype) {
    case DType::fp64:
      return fn.template operator()<Float64>();
    case DType::fp32:
      return fn.template operator()<Float32>();
    case DType::tf32:
      return fn.template operator()<TensorFloat32>();
    case DType::fp16:
      return fn.template operator()<Float16>();
    case DType::bf16:
      return fn.template operator()<BFloat16>();
    case DType::fp8:
      return fn.template operator()<Float8E4M3>();
    case DType::bf8:
      return fn.template operator()<Float8E5M2>();
    case DType::int32:
      return fn.template operator()<Int32>();
    case DType::int8:
      return fn.template operator()<Int8>();
    default:
      break;
  }
  fail(
      Errc::unsupported,
      "operands of dtype {} cannot be made or verified; use fp64, fp32, tf32, fp16, bf16, fp8, bf8, int32 or "
      "int8",
      word(dtype));
}

}  // namespace kscout
