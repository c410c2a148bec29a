#pragma once
/// \file
/// Defines each operation once, for folding, single values, columns and exported headers.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "expr/expr.h"

namespace kscout::expr {

#include "expr/formula-inl.h"

template <Code code>
double apply(double a, [[maybe_unused]] double b, [[maybe_unused]] double c) noexcept {
  if constexpr (code == Code::negate) return -a;
  if constexpr (code == Code::logical_not) return formula::logical_not(a);
  if constexpr (code == Code::ceil) return std::ceil(a);
  if constexpr (code == Code::floor) return std::floor(a);
  if constexpr (code == Code::abs) return std::abs(a);
  if constexpr (code == Code::log2) return formula::log2(a);
  if constexpr (code == Code::ln) return formula::ln(a);
  if constexpr (code == Code::known) return formula::known(a);
  if constexpr (code == Code::add) return a + b;
  if constexpr (code == Code::subtract) return a - b;
  if constexpr (code == Code::multiply) return a * b;
  if constexpr (code == Code::divide) return a / b;
  if constexpr (code == Code::remainder) return formula::remainder(a, b);
  if constexpr (code == Code::minimum) return formula::minimum(a, b);
  if constexpr (code == Code::maximum) return formula::maximum(a, b);
  if constexpr (code == Code::ceil_div) return formula::ceil_div(a, b);
  if constexpr (code == Code::equal) return formula::equal(a, b);
  if constexpr (code == Code::not_equal) return formula::not_equal(a, b);
  if constexpr (code == Code::less) return formula::less(a, b);
  if constexpr (code == Code::less_equal) return formula::less_equal(a, b);
  if constexpr (code == Code::logical_and) return formula::logical_and(a, b);
  if constexpr (code == Code::logical_or) return formula::logical_or(a, b);
  if constexpr (code == Code::choose) return formula::choose(a, b, c);
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
