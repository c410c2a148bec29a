// Describes grouped GEMMs: sizes, text form, operands.
#include <algorithm>
#include <cmath>
#include <limits>

#include <kscout/grouped_gemm.h>

#include "core/fail.h"
#include "core/problem_text.h"
#include "op/gemm/product_types.h"
#include "op/given_fields.h"

namespace kscout {

namespace {

using P = GroupedGemmProblem;

constexpr std::int64_t kMaxOperandElements = std::int64_t{1} << 62;

/// The first error of a problem in words; empty without one.
std::string fault_of(const P& p) {
  if (const std::string_view field = field_without_word(p); !field.empty())
    return fmt::format("{}: the value is none of its enum", field);
  const auto sizes = p.m.sizes();
  if (sizes.empty()) return "m has no group; write the rows of each one, as 128+64+0+7";
  if (std::ssize(sizes) > P::max_groups) {
    return fmt::format("m has {} groups, at most {} are supported; split the call", sizes.size(),
                       P::max_groups);
  }
  for (std::size_t group = 0; group < sizes.size(); ++group) {
    if (sizes[group] >= 0 && sizes[group] <= P::max_rows) continue;
    return fmt::format("m of group {} is {}: must be from 0 to {}", group, sizes[group], P::max_rows);
  }
  if (p.n < 0) return fmt::format("n={}: must be at least 0", p.n);
  if (p.k < 0) return fmt::format("k={}: must be at least 0", p.k);
  if (!(p.weight >= 0) || !std::isfinite(p.weight))
    return fmt::format("weight={}: must be a finite number of calls, at least 0", p.weight);
  if (p.layout != Layout::rcr && p.layout != Layout::rrr) {
    return fmt::format("layout={}: rows of A and C belong to groups, so they are row-major; use rcr or rrr",
                       word(p.layout));
  }
  P derived = p;
  derive(derived);
  std::string stale;
  for_each_field<P>([&](const auto& field) {
    if (field.role != FieldRole::derived || p.*field.member == derived.*field.member) return;
    if (stale.empty()) {
      stale = fmt::format("{}={}: m gives {}; make the problem with make_grouped_gemm or call derive",
                          field.name, field_text(p.*field.member), field_text(derived.*field.member));
    }
  });
  if (!stale.empty()) return stale;
  const auto too_large = [](std::int64_t a, std::int64_t b) { return a != 0 && b > kMaxOperandElements / a; };
  if (too_large(p.m_sum, p.k))
    return fmt::format("operand a: {} x {} elements exceed the limit of 2^62", p.m_sum, p.k);
  if (too_large(p.n, p.k) || too_large(p.n * p.k, p.groups))
    return fmt::format("operand b: {} x {} x {} elements exceed the limit of 2^62", p.groups, p.n, p.k);
  if (too_large(p.m_sum, p.n))
    return fmt::format("operand c: {} x {} elements exceed the limit of 2^62", p.m_sum, p.n);
  return {};
}

}  // namespace

void derive(P& p) noexcept {
  p.groups = std::ssize(p.m.sizes());
  p.m_sum = p.m_max = p.m_filled = p.m_tiles_16 = p.m_tiles_64 = p.m_tiles_128 = 0;
  for (const std::int64_t size : p.m.sizes()) {
    const std::int64_t m = std::clamp<std::int64_t>(size, 0, P::max_rows);  // check() reports others
    p.m_sum += m;
    p.m_max = std::max(p.m_max, m);
    p.m_filled += m > 0;
    p.m_tiles_16 += (m + 15) / 16;
    p.m_tiles_64 += (m + 63) / 64;
    p.m_tiles_128 += (m + 127) / 128;
  }
}

P make_grouped_gemm(SizeList m, std::int64_t n, std::int64_t k, DType dtype, Layout layout) {
  const GemmProblem typed = make_gemm(0, n, k, dtype, layout);
  P p{.m = std::move(m),
      .n = n,
      .k = k,
      .dtype_a = typed.dtype_a,
      .dtype_b = typed.dtype_b,
      .dtype_c = typed.dtype_c,
      .dtype_acc = typed.dtype_acc,
      .layout = layout};
  derive(p);
  return p;
}

void set_fields(P& p, std::span<const GivenField> given) {
  set_given_fields<P>(p, given, {product_types<P>()});
  derive(p);
}

Signature signature_of(const P& p) noexcept {
  return {.op = Op::grouped_gemm,
          .dtype_a = p.dtype_a,
          .dtype_b = p.dtype_b,
          .dtype_c = p.dtype_c,
          .dtype_acc = p.dtype_acc,
          .layout = p.layout};
}

double flop_count(const P& p) noexcept {
  return 2.0 * static_cast<double>(p.m_sum) * static_cast<double>(p.n) * static_cast<double>(p.k);
}

double min_bytes(const P& p) noexcept {
  const auto m = static_cast<double>(p.m_sum), n = static_cast<double>(p.n), k = static_cast<double>(p.k);
  return m * k * bytes_per_element(p.dtype_a) +
         static_cast<double>(p.m_filled) * n * k * bytes_per_element(p.dtype_b) +
         m * n * bytes_per_element(p.dtype_c);
}

void check(const P& p) {
  if (const std::string fault = fault_of(p); !fault.empty())
    fail(Errc::invalid_argument, "grouped_gemm {}", fault);
}

bool is_valid(const P& p) noexcept { return fault_of(p).empty(); }

std::string print(const P& p) {
  const P plain = make_grouped_gemm(p.m, p.n, p.k, p.dtype_a, p.layout);
  return fmt::format("grouped_gemm:{}x{}x{}:{}:{}", size_list_text(p.m), p.n, p.k, word(p.dtype_a),
                     word(p.layout)) +
         assignments(p, plain);
}

}  // namespace kscout
