#pragma once
/// \file
/// Packs the numbers of a problem into words, for keys that are compared often.
///
///     std::uint64_t rest = 0;
///     const std::uint64_t word = packed<32>(rest, p.m, p.n);
///     if (rest != 0) ...                                    // a number needs more bits
#include <array>
#include <cstdint>

namespace kscout {

/// The identity of a problem.
using ProblemWords = std::array<std::uint64_t, 6>;

/// Packs numbers into one word; `rest` collects the bits that do not fit.
template <int kBits>
std::uint64_t packed(std::uint64_t& rest, auto... numbers) noexcept {
  static_assert(kBits * sizeof...(numbers) <= 64);
  std::uint64_t word = 0;
  ((word = word << kBits | static_cast<std::uint64_t>(numbers)), ...);
  ((rest |= static_cast<std::uint64_t>(numbers) >> kBits), ...);
  return word;
}

}  // namespace kscout
