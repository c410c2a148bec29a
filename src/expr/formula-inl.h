// Defines the operations of formulas: 1 is true, 0 is false, NaN is unknown. This text is part of the library
// (expr/operations.h) and of every exported header, which is C++17. It includes nothing: the including file
// provides <cmath>, <cstdint>, <cstring> and <limits>.
namespace formula {

// NaN is false.
inline bool is_true(double x) noexcept { return x != 0 && x == x; }
inline double truth(bool holds) noexcept { return holds ? 1.0 : 0.0; }

inline double known(double a) noexcept { return truth(a == a); }
inline double logical_not(double a) noexcept { return truth(!is_true(a)); }
inline double logical_and(double a, double b) noexcept { return truth(is_true(a) && is_true(b)); }
inline double logical_or(double a, double b) noexcept { return truth(is_true(a) || is_true(b)); }
inline double choose(double a, double b, double c) noexcept { return is_true(a) ? b : c; }
inline double equal(double a, double b) noexcept { return truth(a == b); }
inline double not_equal(double a, double b) noexcept { return truth(a < b || a > b); }
inline double less(double a, double b) noexcept { return truth(a < b); }
inline double less_equal(double a, double b) noexcept { return truth(a <= b); }
inline double minimum(double a, double b) noexcept { return (a != a || a <= b) ? a : b; }
inline double maximum(double a, double b) noexcept { return (a != a || a >= b) ? a : b; }
inline double ceil_div(double a, double b) noexcept { return std::ceil(a / b); }

// The non-negative remainder. Whole numbers are computed as integers, which is exact and fast.
inline double remainder(double x, double y) noexcept {
  const double whole = 9007199254740992.0;  // 2^53
  if (std::fabs(x) < whole && std::fabs(y) < whole) {
    const std::int64_t a = static_cast<std::int64_t>(x), b = static_cast<std::int64_t>(y);
    if (static_cast<double>(a) == x && static_cast<double>(b) == y && b != 0) {
      const std::int64_t rest = a % b;
      return static_cast<double>(rest < 0 ? rest + (b < 0 ? -b : b) : rest);
    }
  }
  const double rest = std::fmod(x, y);
  return rest < 0 ? rest + std::fabs(y) : rest + 0.0;  // turns -0 into 0, as the integer computation does
}

// Computes logarithms from sums, products and quotients only, so that every IEEE 754 machine gives the same
// bits. Error below 0.6 ulp; powers of two are exact under log2. 0 gives -inf, negative numbers NaN.
//
// Method: x = 2^e m with m in [sqrt(1/2), sqrt(2)); ln m = 2 artanh(s), s = (m - 1) / (m + 1), as a series in
// s^2. Its leading term is kept as an unevaluated sum of two doubles (Dekker 1971), so that one rounding
// decides the last bit.

// The exact or nearly exact value hi + lo.
struct Pair {
  double hi, lo;
};
inline Pair exact_sum(double a, double b) noexcept {
  const double sum = a + b;
  const double from_b = sum - a;
  return {sum, (a - (sum - from_b)) + (b - from_b)};
}
// Veltkamp's split: the upper 26 bits and the rest.
inline Pair halves(double x) noexcept {
  const double scaled = 134217729.0 * x;  // 2^27 + 1
  const double upper = scaled - (scaled - x);
  return {upper, x - upper};
}
inline Pair exact_product(double a, double b) noexcept {
  const double product = a * b;
  const Pair x = halves(a), y = halves(b);
  return {product, ((x.hi * y.hi - product) + x.hi * y.lo + x.lo * y.hi) + x.lo * y.lo};
}
// ln m for m in [sqrt(1/2), sqrt(2)), relative error below 2^-57.
inline Pair ln_of_mantissa(double m) noexcept {
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
  double exponent, mantissa;
};
// For finite x > 0.
inline Parts split(double x) noexcept {
  int exponent = 0;
  if (x < std::numeric_limits<double>::min()) {  // subnormal: make it normal
    x *= 0x1p54;
    exponent = -54;
  }
  std::uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  exponent += static_cast<int>(bits >> 52) - 1023;
  bits = (bits & 0x000fffffffffffffULL) | 0x3ff0000000000000ULL;
  double mantissa;
  std::memcpy(&mantissa, &bits, sizeof mantissa);
  if (mantissa > 0x1.6a09e667f3bccp+0) {  // sqrt(2)
    mantissa *= 0.5;
    ++exponent;
  }
  return {static_cast<double>(exponent), mantissa};
}
// True when the logarithm of x needs no arithmetic; `answer` then holds the result.
inline bool needs_no_arithmetic(double x, double& answer) noexcept {
  if (x > 0 && x <= std::numeric_limits<double>::max()) return false;
  answer = x == 0  ? -std::numeric_limits<double>::infinity()
           : x > 0 ? x
                   : std::numeric_limits<double>::quiet_NaN();
  return true;
}
inline double log2(double x) noexcept {
  double answer = 0;
  if (needs_no_arithmetic(x, answer)) return answer;
  const Parts parts = split(x);
  const Pair ln = ln_of_mantissa(parts.mantissa);
  const Pair per_ln = {0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56};  // 1 / ln 2
  const Pair product = exact_product(ln.hi, per_ln.hi);
  const Pair sum = exact_sum(parts.exponent, product.hi);
  return sum.hi + (sum.lo + (product.lo + (ln.hi * per_ln.lo + ln.lo * per_ln.hi)));
}
inline double ln(double x) noexcept {
  double answer = 0;
  if (needs_no_arithmetic(x, answer)) return answer;
  const Parts parts = split(x);
  const Pair ln = ln_of_mantissa(parts.mantissa);
  const Pair ln_2 = {0x1.62e42fefa3800p-1,
                     0x1.ef35793c76730p-45};  // upper part of 42 bits: exact times any exponent
  const Pair sum = exact_sum(parts.exponent * ln_2.hi, ln.hi);
  return sum.hi + (sum.lo + (ln.lo + parts.exponent * ln_2.lo));
}

}  // namespace formula
