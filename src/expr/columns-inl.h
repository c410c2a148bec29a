// Implements operations over columns for one instruction set.
#include <utility>

#include "core/isa-inl.h"
#include "expr/column_kernels.h"
#include "expr/operations.h"

HWY_BEFORE_NAMESPACE();
namespace kscout::expr::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Doubles = hn::ScalableTag<double>;
using Values = hn::Vec<Doubles>;
inline constexpr Doubles doubles;

HWY_INLINE Values truth(hn::Mask<Doubles> mask) { return hn::IfThenElseZero(mask, hn::Set(doubles, 1.0)); }
/// NaN is false.
HWY_INLINE hn::Mask<Doubles> is_true(Values x) { return hn::Gt(hn::Abs(x), hn::Zero(doubles)); }
HWY_INLINE hn::Mask<Doubles> is_nan(Values x) { return hn::IsNaN(x); }  // Ne(x, x) is false for NaN on AVX2

template <Code code>
HWY_INLINE Values apply(Values a, [[maybe_unused]] Values b, [[maybe_unused]] Values c) {
  if constexpr (code == Code::negate) return hn::Neg(a);
  if constexpr (code == Code::logical_not) return hn::IfThenZeroElse(is_true(a), hn::Set(doubles, 1.0));
  if constexpr (code == Code::ceil) return hn::Ceil(a);
  if constexpr (code == Code::floor) return hn::Floor(a);
  if constexpr (code == Code::abs) return hn::Abs(a);
  if constexpr (code == Code::known) return truth(hn::Eq(a, a));
  if constexpr (code == Code::add) return hn::Add(a, b);
  if constexpr (code == Code::subtract) return hn::Sub(a, b);
  if constexpr (code == Code::multiply) return hn::Mul(a, b);
  if constexpr (code == Code::divide) return hn::Div(a, b);
  if constexpr (code == Code::minimum) return hn::IfThenElse(hn::Or(is_nan(a), hn::Le(a, b)), a, b);
  if constexpr (code == Code::maximum) return hn::IfThenElse(hn::Or(is_nan(a), hn::Ge(a, b)), a, b);
  if constexpr (code == Code::ceil_div) return hn::Ceil(hn::Div(a, b));
  if constexpr (code == Code::equal) return truth(hn::Eq(a, b));
  if constexpr (code == Code::not_equal) return truth(hn::Or(hn::Lt(a, b), hn::Gt(a, b)));
  if constexpr (code == Code::less) return truth(hn::Lt(a, b));
  if constexpr (code == Code::less_equal) return truth(hn::Le(a, b));
  if constexpr (code == Code::logical_and) return truth(hn::And(is_true(a), is_true(b)));
  if constexpr (code == Code::logical_or) return truth(hn::Or(is_true(a), is_true(b)));
  if constexpr (code == Code::choose) return hn::IfThenElse(is_true(a), b, c);
  return a;
}

/// Whole numbers below 2^53. Their remainder is exact: the quotient is off by at most 1, and its product with
/// the divisor has no more digits than the dividend.
HWY_INLINE hn::Mask<Doubles> is_whole(Values x) {
  return hn::And(hn::Eq(hn::Trunc(x), x), hn::Lt(hn::Abs(x), hn::Set(doubles, 9007199254740992.0)));
}
template <>
HWY_INLINE Values apply<Code::remainder>(Values a, Values b, Values) {
  const Values zero = hn::Zero(doubles), size = hn::Abs(a), divisor = hn::Abs(b);
  Values rest = hn::Sub(size, hn::Mul(hn::Floor(hn::Div(size, divisor)), divisor));
  rest = hn::IfThenElse(hn::Lt(rest, zero), hn::Add(rest, divisor), rest);
  const hn::Mask<Doubles> other = hn::And(hn::Lt(a, zero), hn::Gt(rest, zero));
  rest = hn::IfThenElse(other, hn::Sub(divisor, rest), rest);
  const hn::Mask<Doubles> plain = hn::And(hn::And(is_whole(a), is_whole(b)), hn::Gt(divisor, zero));
  const hn::Mask<Doubles> unknown = hn::Or(is_nan(a), is_nan(b));
  if (hn::AllTrue(doubles, hn::Or(plain, unknown))) return hn::IfThenElse(unknown, hn::Add(a, b), rest);
  HWY_ALIGN double x[hn::MaxLanes(doubles)], y[hn::MaxLanes(doubles)], out[hn::MaxLanes(doubles)];
  hn::Store(a, doubles, x);
  hn::Store(b, doubles, y);
  for (std::size_t i = 0; i < hn::Lanes(doubles); ++i) out[i] = formula::remainder(x[i], y[i]);
  return hn::Load(doubles, out);
}

/// Bits of `shape` mark the operands that are columns: 4 for a, 2 for b, 1 for c.
template <Code code, std::size_t shape>
void column(const double* HWY_RESTRICT a, const double* HWY_RESTRICT b, const double* HWY_RESTRICT c,
            double* out, std::size_t rows) noexcept {
  const Values one_a = hn::Set(doubles, *a), one_b = hn::Set(doubles, *b), one_c = hn::Set(doubles, *c);
  for (std::size_t i = 0; i < rows; i += hn::Lanes(doubles)) {
    const Values x = shape & 4 ? hn::Load(doubles, a + i) : one_a;
    const Values y = shape & 2 ? hn::Load(doubles, b + i) : one_b;
    const Values z = shape & 1 ? hn::Load(doubles, c + i) : one_c;
    hn::Store(apply<code>(x, y, z), doubles, out + i);
  }
}

template <Code code>
constexpr std::array<ColumnOperation, 8> shapes() {
  return {column<code, 0>, column<code, 1>, column<code, 2>, column<code, 3>,
          column<code, 4>, column<code, 5>, column<code, 6>, column<code, 7>};
}

}  // namespace kscout::expr::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

namespace kscout::expr {

/// Constants and inputs have no operation; logarithms are computed value by value.
template <std::size_t... codes>
constexpr ColumnOperations vector_columns(std::index_sequence<codes...>) {
  return {(static_cast<Code>(codes) == Code::constant || static_cast<Code>(codes) == Code::input ||
                   static_cast<Code>(codes) == Code::log2 || static_cast<Code>(codes) == Code::ln
               ? std::array<ColumnOperation, 8>{}
               : HWY_NAMESPACE::shapes<static_cast<Code>(codes)>())...};
}

}  // namespace kscout::expr
