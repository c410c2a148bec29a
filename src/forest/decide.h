#pragma once
/// \file
/// Which way a node sends a value: LightGBM's rules, once for every evaluator.
#include <cstdint>
#include <limits>
#include <span>

#include "forest/forest.h"

namespace kscout {

/// What LightGBM takes for zero: its constant is the float 1e-35 widened to double.
inline constexpr double kForestZero = 1e-35f;

inline bool is_forest_zero(double value) noexcept { return value >= -kForestZero && value <= kForestZero; }

/// What a numerical node compares in place of `value`: the node sends it left when this <= threshold. An
/// absent value becomes -infinity (its default way is left) or NaN (right), so that nodes which treat missing
/// values alike differ by their thresholds only.
inline double compared_value(double value, std::uint8_t decision) noexcept {
  const Missing missing = Decision::missing(decision);
  const bool is_nan = value != value;
  if (is_nan && missing != Missing::nan) value = 0;
  const bool absent = missing == Missing::nan ? is_nan : missing == Missing::zero && is_forest_zero(value);
  if (absent) {
    return decision & Decision::default_left ? -std::numeric_limits<double>::infinity()
                                             : std::numeric_limits<double>::quiet_NaN();
  }
  return is_forest_zero(value) ? 0.0 : value;
}

inline bool numerical_left(double value, double threshold, std::uint8_t decision) noexcept {
  return compared_value(value, decision) <= threshold;
}

/// `bits` as Forest::set_bits of the node's set.
inline bool categorical_left(double value, std::span<const std::uint32_t> bits) noexcept {
  if (!(value > -1.0 && value < 2147483648.0)) return false;  // NaN, negative, beyond int
  const auto category = static_cast<std::uint32_t>(value);
  return category / 32 < bits.size() && ((bits[category / 32] >> (category % 32)) & 1U) != 0;
}

/// The categories that categorical node `at` sends left.
inline std::span<const std::uint32_t> category_set(const Forest& forest, std::size_t at) noexcept {
  const auto set = static_cast<std::size_t>(forest.threshold[at]);
  const std::size_t begin = forest.set_words[set];
  return {forest.set_bits.data() + begin, forest.set_words[set + 1] - begin};
}

}  // namespace kscout
