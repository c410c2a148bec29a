#pragma once
/// \file
/// How far a right result may be from a reference in float64 (verify.h, "Tolerance").
#include <algorithm>
#include <cmath>
#include <limits>

#include <kscout/types.h>

#include "measure/elements.h"

namespace kscout {

inline constexpr double kSlack = 8;       ///< unit round-offs of a sum that are allowed
inline constexpr double kStoreSlack = 2;  ///< unit round-offs of a stored element that are allowed
inline constexpr double kPartsSlack = 8;  ///< of sums that may be stored in parts of the element's type

inline double round_off(DType dtype) {
  return with_element(dtype, []<class E>() { return E::round_off; });
}

/// The least value that the type tells from 0.
inline double step(DType dtype) {
  return with_element(dtype, []<class E>() { return E::step; });
}

/// Unit round-off of sums of so many products.
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
