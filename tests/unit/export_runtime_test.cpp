// Compares the arithmetic that exported headers contain with the library's, bit for bit.
#include <bit>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "expr/operations.h"

namespace exported {
#include "forest/trees-inl.h"
// uses the walk of trees
#include "export/runtime-inl.h"
#include "expr/formula-inl.h"
}  // namespace exported

namespace kscout {
namespace {

/// Equal bits. NaN is NaN, whatever its bits: both sides only ever ask whether a value is known.
bool same(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b) || (a != a && b != b);
}

TEST(ExportRuntime, OperationsHaveTheLibrarysBits) {
  namespace f = exported::formula;
  std::mt19937_64 rng(1);
  const auto number = [&]() -> double {
    constexpr double kInf = std::numeric_limits<double>::infinity();
    constexpr double kSpecial[] = {0.0,   -0.0,   1,     -1, 0.5, 3, -7, kInf, -kInf, exported::unknown,
                                   1e308, 5e-324, 0x1p53};
    if (rng() % 3 == 0) return kSpecial[rng() % std::size(kSpecial)];
    if (rng() % 2 == 0) return static_cast<double>(static_cast<std::int64_t>(rng()) >> (rng() % 60));
    return std::bit_cast<double>(rng());
  };
  using expr::Code;
  struct Case {
    Code code;
    std::function<double(double, double, double)> exported;
  };
  const Case cases[] = {
      {Code::logical_not, [](double a, double, double) { return f::logical_not(a); }},
      {Code::log2, [](double a, double, double) { return f::log2(a); }},
      {Code::ln, [](double a, double, double) { return f::ln(a); }},
      {Code::known, [](double a, double, double) { return f::known(a); }},
      {Code::remainder, [](double a, double b, double) { return f::remainder(a, b); }},
      {Code::minimum, [](double a, double b, double) { return f::minimum(a, b); }},
      {Code::maximum, [](double a, double b, double) { return f::maximum(a, b); }},
      {Code::ceil_div, [](double a, double b, double) { return f::ceil_div(a, b); }},
      {Code::equal, [](double a, double b, double) { return f::equal(a, b); }},
      {Code::not_equal, [](double a, double b, double) { return f::not_equal(a, b); }},
      {Code::less, [](double a, double b, double) { return f::less(a, b); }},
      {Code::less_equal, [](double a, double b, double) { return f::less_equal(a, b); }},
      {Code::logical_and, [](double a, double b, double) { return f::logical_and(a, b); }},
      {Code::logical_or, [](double a, double b, double) { return f::logical_or(a, b); }},
      {Code::choose, [](double a, double b, double c) { return f::choose(a, b, c); }},
  };
  for (int i = 0; i < 20000; ++i) {
    const double a = number(), b = rng() % 5 == 0 ? a : number(), c = number();
    for (const Case& of : cases) {
      const double wanted = expr::apply_code(of.code, a, b, c), got = of.exported(a, b, c);
      ASSERT_TRUE(same(wanted, got)) << static_cast<int>(of.code) << " of " << a << ", " << b << ", " << c
                                     << ": " << got << ", not " << wanted;
    }
  }
}

}  // namespace
}  // namespace kscout
