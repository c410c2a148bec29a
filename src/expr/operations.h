#pragma once
/// \file
/// What each operation computes: one definition for folding, single values and columns.
#include <cmath>
#include <cstdint>
#include <limits>

#include "expr/expr.h"

namespace kscout::expr {

inline double remainder_of(double x, double y) noexcept {
  constexpr double kWhole = 0x1p53;
  if (std::abs(x) < kWhole && std::abs(y) < kWhole) {
    const auto whole_x = static_cast<std::int64_t>(x);
    const auto whole_y = static_cast<std::int64_t>(y);
    if (static_cast<double>(whole_x) == x && static_cast<double>(whole_y) == y && whole_y != 0) {
      const std::int64_t rest = whole_x % whole_y;  // exact, as fmod is, and many times faster
      return static_cast<double>(rest < 0 ? rest + std::abs(whole_y) : rest);
    }
  }
  const double rest = std::fmod(x, y);
  return rest < 0 ? rest + std::abs(y) : rest + 0.0;  // -0 becomes 0, as on the way through integers
}

/// NaN is false.
inline bool is_true(double x) noexcept { return x != 0 && x == x; }

template <Code code>
double apply(double a, [[maybe_unused]] double b, [[maybe_unused]] double c) noexcept {
  if constexpr (code == Code::negate) return -a;
  if constexpr (code == Code::logical_not) return is_true(a) ? 0 : 1;
  if constexpr (code == Code::ceil) return std::ceil(a);
  if constexpr (code == Code::floor) return std::floor(a);
  if constexpr (code == Code::abs) return std::abs(a);
  if constexpr (code == Code::log2) return portable_log2(a);
  if constexpr (code == Code::ln) return portable_ln(a);
  if constexpr (code == Code::known) return a == a ? 1 : 0;
  if constexpr (code == Code::add) return a + b;
  if constexpr (code == Code::subtract) return a - b;
  if constexpr (code == Code::multiply) return a * b;
  if constexpr (code == Code::divide) return a / b;
  if constexpr (code == Code::remainder) return remainder_of(a, b);
  if constexpr (code == Code::minimum) return (a != a || a <= b) ? a : b;
  if constexpr (code == Code::maximum) return (a != a || a >= b) ? a : b;
  if constexpr (code == Code::ceil_div) return std::ceil(a / b);
  if constexpr (code == Code::equal) return a == b ? 1 : 0;
  if constexpr (code == Code::not_equal) return (a < b || a > b) ? 1 : 0;
  if constexpr (code == Code::less) return a < b ? 1 : 0;
  if constexpr (code == Code::less_equal) return a <= b ? 1 : 0;
  if constexpr (code == Code::logical_and) return is_true(a) && is_true(b) ? 1 : 0;
  if constexpr (code == Code::logical_or) return is_true(a) || is_true(b) ? 1 : 0;
  if constexpr (code == Code::choose) return is_true(a) ? b : c;
  return std::numeric_limits<double>::quiet_NaN();
}

/// Calls fn.template operator()<code>() for the operation `code`, which is neither constant nor input.
template <class F>
void with_code(Code code, F&& fn) {
  switch (code) {
#define KSCOUT_CASE(name)                 \
  case Code::name:                        \
    fn.template operator()<Code::name>(); \
    break;
    KSCOUT_CASE(negate)
    KSCOUT_CASE(logical_not)
    KSCOUT_CASE(ceil)
    KSCOUT_CASE(floor)
    KSCOUT_CASE(abs)
    KSCOUT_CASE(log2)
    KSCOUT_CASE(ln)
    KSCOUT_CASE(known)
    KSCOUT_CASE(add)
    KSCOUT_CASE(subtract)
    KSCOUT_CASE(multiply)
    KSCOUT_CASE(divide)
    KSCOUT_CASE(remainder)
    KSCOUT_CASE(minimum)
    KSCOUT_CASE(maximum)
    KSCOUT_CASE(ceil_div)
    KSCOUT_CASE(equal)
    KSCOUT_CASE(not_equal)
    KSCOUT_CASE(less)
    KSCOUT_CASE(less_equal)
    KSCOUT_CASE(logical_and)
    KSCOUT_CASE(logical_or)
    KSCOUT_CASE(choose)
#undef KSCOUT_CASE
    case Code::constant:
    case Code::input:
      break;
  }
}

inline double apply_code(Code code, double a, double b, double c) noexcept {
  double result = std::numeric_limits<double>::quiet_NaN();
  with_code(code, [&]<Code of>() { result = apply<of>(a, b, c); });
  return result;
}

}  // namespace kscout::expr
