#pragma once
/// \file
/// Divides work among threads and rounds sizes.
///
///     const Range mine = share_of(plan.m, threads, part, config.mr);   // at whole register tiles
#include <algorithm>
#include <cstdint>

namespace kscout::cpu {

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) noexcept { return (a + b - 1) / b; }
constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) noexcept { return ceil_div(a, b) * b; }

inline constexpr std::int64_t kLine = 16;  ///< floats per cache line

/// Floats between an address and the cache line's beginning before it.
inline std::int64_t floats_behind_line(const float* at) noexcept {
  return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(at) / sizeof(float)) % kLine;
}

/// Floats that hold `count` values of another type, in whole cache lines.
template <class T>
std::int64_t floats_of(std::int64_t count) {
  constexpr auto kFloat = static_cast<std::int64_t>(sizeof(float));
  return round_up(count * static_cast<std::int64_t>(sizeof(T)), kLine * kFloat) / kFloat;
}

struct Range {
  std::int64_t begin, end;
  std::int64_t size() const noexcept { return end - begin; }
};
/// Share `i` of `shares` of `count` units, at multiples of `grain`.
inline Range share_of(std::int64_t count, std::int64_t shares, std::int64_t i,
                      std::int64_t grain = 1) noexcept {
  const std::int64_t grains = ceil_div(count, grain);
  return {std::min(count, grains * i / shares * grain), std::min(count, grains * (i + 1) / shares * grain)};
}

}  // namespace kscout::cpu
