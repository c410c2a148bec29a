// What every exported header computes with. This text is pasted into the header's namespace, which is C++17
// without any dependency; the library's own definitions are in src/expr/operations.h, src/expr/logarithm.cpp
// and src/forest/forest.cpp, and tests/unit/export_test.cpp holds the two against each other bit for bit.

inline constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
inline constexpr double infinity = std::numeric_limits<double>::infinity();

// The operations of formulas: truth is 1 or 0, NaN is unknown.
namespace formula {

inline bool is_true(double x) { return x != 0 && x == x; }
inline double truth(bool holds) { return holds ? 1.0 : 0.0; }

inline double known(double a) { return truth(a == a); }
inline double logical_not(double a) { return truth(!is_true(a)); }
inline double logical_and(double a, double b) { return truth(is_true(a) && is_true(b)); }
inline double logical_or(double a, double b) { return truth(is_true(a) || is_true(b)); }
inline double choose(double a, double b, double c) { return is_true(a) ? b : c; }
inline double equal(double a, double b) { return truth(a == b); }
inline double not_equal(double a, double b) { return truth(a < b || a > b); }
inline double less(double a, double b) { return truth(a < b); }
inline double less_equal(double a, double b) { return truth(a <= b); }
inline double minimum(double a, double b) { return (a != a || a <= b) ? a : b; }
inline double maximum(double a, double b) { return (a != a || a >= b) ? a : b; }
inline double ceil_div(double a, double b) { return std::ceil(a / b); }

// The remainder that is not negative; whole numbers go through integers, which is exact and fast.
inline double remainder(double x, double y) {
  const double whole = 9007199254740992.0;  // 2^53
  if (std::fabs(x) < whole && std::fabs(y) < whole) {
    const std::int64_t a = static_cast<std::int64_t>(x), b = static_cast<std::int64_t>(y);
    if (static_cast<double>(a) == x && static_cast<double>(b) == y && b != 0) {
      const std::int64_t rest = a % b;
      return static_cast<double>(rest < 0 ? rest + (b < 0 ? -b : b) : rest);
    }
  }
  const double rest = std::fmod(x, y);
  return rest < 0 ? rest + std::fabs(y) : rest + 0.0;
}

// Logarithms from sums, products and quotients alone: the same bits on every machine.
struct Pair {
  double hi, lo;
};
inline Pair exact_sum(double a, double b) {
  const double sum = a + b;
  const double from_b = sum - a;
  return {sum, (a - (sum - from_b)) + (b - from_b)};
}
inline Pair halves(double x) {
  const double scaled = 134217729.0 * x;  // 2^27 + 1
  const double upper = scaled - (scaled - x);
  return {upper, x - upper};
}
inline Pair exact_product(double a, double b) {
  const double product = a * b;
  const Pair x = halves(a), y = halves(b);
  return {product, ((x.hi * y.hi - product) + x.hi * y.lo + x.lo * y.hi) + x.lo * y.lo};
}
inline Pair ln_of_mantissa(double m) {
  const double numerator = m - 1;
  const Pair denominator = exact_sum(m, 1);
  const double s = numerator / denominator.hi;
  const Pair product = exact_product(s, denominator.hi);
  const double s_rest = (((numerator - product.hi) - product.lo) - s * denominator.lo) / denominator.hi;
  const double z = s * s;
  double series = 0;
  for (int odd = 25; odd >= 3; odd -= 2) series = z * (series + 1.0 / odd);
  const Pair sum = exact_sum(s, s * series);
  return {2 * sum.hi, 2 * (sum.lo + (s_rest + s_rest * z))};
}
struct Parts {
  double exponent, mantissa;
};
inline Parts split(double x) {
  int exponent = 0;
  if (x < std::numeric_limits<double>::min()) {
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
inline bool needs_no_arithmetic(double x, double& answer) {
  if (x > 0 && x <= std::numeric_limits<double>::max()) return false;
  answer = x == 0 ? -infinity : x > 0 ? x : unknown;
  return true;
}
inline double log2(double x) {
  double answer = 0;
  if (needs_no_arithmetic(x, answer)) return answer;
  const Parts parts = split(x);
  const Pair ln = ln_of_mantissa(parts.mantissa);
  const Pair per_ln = {0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56};
  const Pair product = exact_product(ln.hi, per_ln.hi);
  const Pair sum = exact_sum(parts.exponent, product.hi);
  return sum.hi + (sum.lo + (product.lo + (ln.hi * per_ln.lo + ln.lo * per_ln.hi)));
}
inline double ln(double x) {
  double answer = 0;
  if (needs_no_arithmetic(x, answer)) return answer;
  const Parts parts = split(x);
  const Pair ln = ln_of_mantissa(parts.mantissa);
  const Pair ln_2 = {0x1.62e42fefa3800p-1, 0x1.ef35793c76730p-45};
  const Pair sum = exact_sum(parts.exponent * ln_2.hi, ln.hi);
  return sum.hi + (sum.lo + (ln.lo + parts.exponent * ln_2.lo));
}

}  // namespace formula

// Decision trees as LightGBM walks them.
struct Forest {
  int trees;
  bool average;
  const std::uint32_t* tree_nodes;  // first node of each tree, and the end
  const std::uint32_t* tree_leaves;
  const double* threshold;  // left when value <= threshold; of a categorical node: its set's number
  const std::uint32_t* feature;
  const std::int32_t* left;  // node of the same tree, or ~leaf
  const std::int32_t* right;
  const std::uint8_t* decision;  // 1 categorical, 2 default left, bits 2-3 missing: 0 none, 1 zero, 2 NaN
  const double* leaf_value;
  const std::uint32_t* set_words;
  const std::uint32_t* set_bits;

  static bool is_zero(double x) {
    const double zero = static_cast<double>(1e-35f);  // LightGBM's
    return x >= -zero && x <= zero;
  }
  static bool numerical_left(double value, double at, int how) {
    const int missing = (how >> 2) & 3;
    const bool is_nan = value != value;
    if (is_nan && missing != 2) value = 0;
    const bool absent = missing == 2 ? is_nan : missing == 1 && is_zero(value);
    if (absent) return (how & 2) != 0;
    return (is_zero(value) ? 0.0 : value) <= at;
  }
  bool categorical_left(double value, std::size_t set) const {
    if (!(value > -1.0 && value < 2147483648.0)) return false;
    const std::uint32_t category = static_cast<std::uint32_t>(value);
    const std::uint32_t word = set_words[set] + category / 32;
    return word < set_words[set + 1] && ((set_bits[word] >> (category % 32)) & 1U) != 0;
  }
  double tree(int t, const double* row) const {
    const std::size_t first = tree_nodes[t];
    std::int32_t node = tree_nodes[t + 1] == first ? -1 : 0;
    while (node >= 0) {
      const std::size_t at = first + static_cast<std::size_t>(node);
      const double value = row[feature[at]];
      const bool goes_left = (decision[at] & 1) != 0
                                 ? categorical_left(value, static_cast<std::size_t>(threshold[at]))
                                 : numerical_left(value, threshold[at], decision[at]);
      node = goes_left ? left[at] : right[at];
    }
    return leaf_value[tree_leaves[t] + static_cast<std::size_t>(~node)];
  }
  double predict(const double* row) const {
    double sum = 0;
    for (int t = 0; t < trees; ++t) sum += tree(t, row);
    return average && trees > 0 ? sum / trees : sum;
  }
};
