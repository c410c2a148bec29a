/// \file
/// Logarithms from additions, products and quotients alone, so that every IEEE 754 machine gives the same
/// bits.
///
/// Method: x = 2^e m with m in [sqrt(1/2), sqrt(2)); ln m = 2 artanh(s), s = (m - 1) / (m + 1), as a series
/// in s^2 whose leading term is kept as an unevaluated sum of two doubles (Dekker 1971), so that one rounding
/// decides the last bit.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "expr/expr.h"

namespace kscout::expr {
namespace {

/// The exact or nearly exact value hi + lo.
struct Pair {
  double hi, lo;
};

Pair exact_sum(double a, double b) noexcept {
  const double sum = a + b;
  const double from_b = sum - a;
  return {sum, (a - (sum - from_b)) + (b - from_b)};
}

/// Veltkamp's split: the upper 26 bits and the rest.
Pair halves(double x) noexcept {
  const double scaled = 134217729.0 * x;  // 2^27 + 1
  const double upper = scaled - (scaled - x);
  return {upper, x - upper};
}

Pair exact_product(double a, double b) noexcept {
  const double product = a * b;
  const Pair x = halves(a), y = halves(b);
  const double error = ((x.hi * y.hi - product) + x.hi * y.lo + x.lo * y.hi) + x.lo * y.lo;
  return {product, error};
}

/// ln m for m in [sqrt(1/2), sqrt(2)), relative error below 2^-57.
Pair ln_of_mantissa(double m) noexcept {
  const double numerator = m - 1;  // exact
  const Pair denominator = exact_sum(m, 1);
  const double s = numerator / denominator.hi;
  const Pair product = exact_product(s, denominator.hi);
  const double s_rest = (((numerator - product.hi) - product.lo) - s * denominator.lo) / denominator.hi;
  const double z = s * s;
  double series = 0;  // z/3 + z^2/5 + ...: z < 0.03, so 12 terms reach 2^-64
  for (int odd = 25; odd >= 3; odd -= 2) series = z * (series + 1.0 / odd);
  const Pair sum = exact_sum(s, s * series);
  return {2 * sum.hi, 2 * (sum.lo + (s_rest + s_rest * z))};
}

struct Parts {
  double exponent;
  double mantissa;
};

/// For finite x > 0.
Parts split(double x) noexcept {
  int exponent = 0;
  if (x < std::numeric_limits<double>::min()) {  // subnormal: make it normal
    x *= 0x1p54;
    exponent = -54;
  }
  auto bits = std::bit_cast<std::uint64_t>(x);
  exponent += static_cast<int>(bits >> 52) - 1023;
  bits = (bits & 0x000fffffffffffffULL) | 0x3ff0000000000000ULL;
  double mantissa = std::bit_cast<double>(bits);
  if (mantissa > 0x1.6a09e667f3bccp+0) {  // sqrt(2)
    mantissa *= 0.5;
    ++exponent;
  }
  return {static_cast<double>(exponent), mantissa};
}

/// True when the logarithm of x needs no arithmetic; the answer is then in `answer`.
bool is_special(double x, double& answer) noexcept {
  if (x > 0 && x <= std::numeric_limits<double>::max()) return false;
  if (x == 0) {
    answer = -std::numeric_limits<double>::infinity();
  } else {
    answer = x > 0 ? x : std::numeric_limits<double>::quiet_NaN();
  }
  return true;
}

}  // namespace

double portable_log2(double x) noexcept {
  double answer = 0;
  if (is_special(x, answer)) return answer;
  const Parts parts = split(x);
  const Pair ln = ln_of_mantissa(parts.mantissa);
  constexpr Pair kPerLn = {0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56};  // 1 / ln 2
  const Pair product = exact_product(ln.hi, kPerLn.hi);
  const Pair sum = exact_sum(parts.exponent, product.hi);
  return sum.hi + (sum.lo + (product.lo + (ln.hi * kPerLn.lo + ln.lo * kPerLn.hi)));
}

double portable_ln(double x) noexcept {
  double answer = 0;
  if (is_special(x, answer)) return answer;
  const Parts parts = split(x);
  const Pair ln = ln_of_mantissa(parts.mantissa);
  constexpr Pair kLn2 = {0x1.62e42fefa3800p-1,
                         0x1.ef35793c76730p-45};  // upper part of 42 bits: exact times any exponent
  const Pair sum = exact_sum(parts.exponent * kLn2.hi, ln.hi);
  return sum.hi + (sum.lo + (ln.lo + parts.exponent * kLn2.lo));
}

}  // namespace kscout::expr
