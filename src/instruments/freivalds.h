#pragma once
/// \file
/// Implements parts of Freivalds' check (op/gemm/gemm_reference.h): long sums in float64, the random vector,
/// the tolerance.
///
///     const double dot = lane_sum(n, [&](std::int64_t i) { return a[i] * b[i]; });
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <kscout/fields.h>
#include <kscout/types.h>

#include "instruments/elements.h"

namespace kscout {

constexpr double kMaxProducts = 1 << 19;  ///< up to this number, every element is compared

/// Sums term(i) for i < count in eight lanes: the order is fixed, and the compiler can vectorise the sum.
template <class F>
double lane_sum(std::int64_t count, F&& term) {
  std::array<double, 8> lane{};
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (std::int64_t l = 0; l < 8; ++l) lane[static_cast<std::size_t>(l)] += term(i + l);
  }
  for (; i < count; ++i) lane[0] += term(i);
  return ((lane[0] + lane[4]) + (lane[1] + lane[5])) + ((lane[2] + lane[6]) + (lane[3] + lane[7]));
}

// ---- Draws the random vector of Freivalds' check (op/gemm/gemm_reference.h).

/// Weights with 0.5 <= |w| <= 1.5 and random signs; the same at every call.
inline std::vector<double> row_weights(std::int64_t count) {
  std::vector<double> weights(static_cast<std::size_t>(count));
  std::uint64_t random = 0x5EED;
  for (double& weight : weights) {
    random = mix_hash(random, 1);
    const double size = 0.5 + static_cast<double>(random >> 11) * 0x1p-53;
    weight = (random & 1) ? size : -size;
  }
  return weights;
}

// ---- Computes how far a right result may be from a reference in float64 (op/gemm/gemm_reference.h,
// "Tolerance").

inline constexpr double kSlack = 8;       ///< allowed unit round-offs of a sum
inline constexpr double kStoreSlack = 2;  ///< allowed unit round-offs of a stored element
/// The same for sums that may be stored in slices of the element's type.
inline constexpr double kPartsSlack = 8;

inline double round_off(DType dtype) {
  return with_element(dtype, []<class E>() { return E::round_off; });
}

/// The smallest positive value of the type.
inline double step(DType dtype) {
  return with_element(dtype, []<class E>() { return E::step; });
}

/// Unit round-off of sums of this many products.
inline double sum_round_off(DType of_operands, DType of_sum, std::int64_t products) {
  const double own = round_off(of_sum);
  const bool matrix_unit = own > 0 && bytes_per_element(of_operands) < bytes_per_element(of_sum);
  if (!matrix_unit && of_operands != DType::tf32) return own;
  const double root = std::sqrt(std::max(1.0, static_cast<double>(products)));
  const double few_bits = bytes_per_element(of_operands) <= 1 ? 0x1p-13 / root : 0;
  return own * (1 + root / 32) + few_bits;
}

inline double difference_over(double got, double expected, double tolerance) {
  const double difference = std::abs(got - expected);
  if (difference == 0) return 0;
  if (std::isnan(difference)) return std::numeric_limits<double>::infinity();
  return difference / tolerance;
}

}  // namespace kscout
