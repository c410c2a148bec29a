#pragma once
/// \file
/// Long sums in float64.
///
///     const double dot = lane_sum(n, [&](std::int64_t i) { return a[i] * b[i]; });
#include <array>
#include <cstddef>
#include <cstdint>

namespace kscout {

/// sum term(i), i below count, in eight lanes: a fixed order, and the compiler may use vectors for it.
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

}  // namespace kscout
