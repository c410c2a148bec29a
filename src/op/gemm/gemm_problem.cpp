#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <variant>

#include <kscout/problem.h>

#include "core/fail.h"
#include "core/field_text.h"
#include "core/problem_text.h"
#include "op/gemm/product_types.h"
#include "op/given_fields.h"

namespace kscout {

namespace {

constexpr std::int64_t kMaxElements = std::int64_t{1} << 62;

struct Shape {
  std::int64_t lines;   ///< rows when row-major, columns otherwise
  std::int64_t length;  ///< elements of one line
};

Shape shape_a(const GemmProblem& p) { return row_major_a(p.layout) ? Shape{p.m, p.k} : Shape{p.k, p.m}; }
Shape shape_b(const GemmProblem& p) { return row_major_b(p.layout) ? Shape{p.k, p.n} : Shape{p.n, p.k}; }
Shape shape_c(const GemmProblem& p) { return {p.m, p.n}; }

/// The first error of a problem.
struct Fault {
  enum class Kind : std::uint8_t { word, size, leading, weight, layout, elements } kind;
  std::string_view field;             ///< or an operand
  std::int64_t value = 0, least = 0;  ///< or the two factors of the element count that is too large
};

/// a * b if within the limit of one operand; factors are at least 0.
std::optional<std::int64_t> product(std::int64_t a, std::int64_t b) noexcept {
  if (a != 0 && b > kMaxElements / a) return std::nullopt;
  return a * b;
}

/// The number of elements of an operand, or the factors whose product is too large.
std::variant<std::int64_t, Fault> elements(std::string_view operand, Shape shape, std::int64_t leading,
                                           std::int64_t batch) noexcept {
  const auto one = product(shape.lines, leading);
  if (!one) return Fault{Fault::Kind::elements, operand, shape.lines, leading};
  const auto all = product(*one, batch);
  if (!all) return Fault{Fault::Kind::elements, operand, *one, batch};
  return *all;
}

struct Operand {
  std::string_view name;
  Shape shape;
  std::int64_t leading;
};
std::array<Operand, 3> operands_of(const GemmProblem& p) noexcept {
  const auto ld = leading_dimensions(p);
  return {{{"A", shape_a(p), ld.a}, {"B", shape_b(p), ld.b}, {"C", shape_c(p), ld.c}}};
}

std::optional<Fault> find_fault(const GemmProblem& p) noexcept {
  if (const std::string_view field = field_without_word(p); !field.empty())
    return Fault{Fault::Kind::word, field};
  struct Size {
    std::string_view name;
    std::int64_t value, least;
  };
  for (const Size& size : {Size{"m", p.m, 0},
                           {"n", p.n, 0},
                           {"k", p.k, 0},
                           {"batch", p.batch, 1},
                           {"split_k", p.split_k, 0},
                           {"lda", p.lda, 0},
                           {"ldb", p.ldb, 0},
                           {"ldc", p.ldc, 0}}) {
    if (size.value < size.least) return Fault{Fault::Kind::size, size.name, size.value, size.least};
  }
  for (const Size& leading : {Size{"lda", p.lda, shape_a(p).length},
                              {"ldb", p.ldb, shape_b(p).length},
                              {"ldc", p.ldc, shape_c(p).length}}) {
    if (leading.value != 0 && leading.value < leading.least) {
      return Fault{Fault::Kind::leading, leading.name, leading.value, leading.least};
    }
  }
  if (!(p.weight >= 0) || !std::isfinite(p.weight)) return Fault{Fault::Kind::weight, "weight"};
  if (!is_gemm_layout(p.layout)) return Fault{Fault::Kind::layout, "layout"};
  for (const Operand& operand : operands_of(p)) {
    const auto found = elements(operand.name, operand.shape, operand.leading, p.batch);
    if (const auto* fault = std::get_if<Fault>(&found)) return *fault;
  }
  return std::nullopt;
}

[[noreturn]] void fail_for(const GemmProblem& p, const Fault& fault) {
  switch (fault.kind) {
    case Fault::Kind::word:
      fail(Errc::invalid_argument, "gemm {}: the value is none of its enum", fault.field);
    case Fault::Kind::size:
      fail(Errc::invalid_argument, "gemm {}={}: must be at least {}", fault.field, fault.value, fault.least);
    case Fault::Kind::leading:
      fail(Errc::invalid_argument, "gemm {}={}: a line holds {} elements; use 0 for packed or at least {}",
           fault.field, fault.value, fault.least, fault.least);
    case Fault::Kind::weight:
      fail(Errc::invalid_argument, "gemm weight={}: must be a finite number of calls, at least 0", p.weight);
    case Fault::Kind::layout:
      fail(Errc::invalid_argument, "gemm layout={}: is a layout of convolutions; use one of {}",
           word(p.layout), fmt::join(kGemmLayoutWords, ", "));
    case Fault::Kind::elements:
      break;
  }
  fail(Errc::invalid_argument, "operand {}: {} x {} elements exceed the limit of 2^62", fault.field,
       fault.value, fault.least);
}

}  // namespace

GemmProblem make_gemm(std::int64_t m, std::int64_t n, std::int64_t k, DType dtype, Layout layout) {
  GemmProblem p;
  p.m = m;
  p.n = n;
  p.k = k;
  p.layout = layout;
  p.dtype_a = p.dtype_b = p.dtype_c = dtype;
  p.dtype_acc = DType::fp32;
  switch (dtype) {
    case DType::fp64:
      p.dtype_acc = DType::fp64;
      break;
    case DType::fp8:
    case DType::bf8:
      p.dtype_c = DType::fp16;
      break;
    case DType::int32:
    case DType::int8:
    case DType::int4:
      p.dtype_c = p.dtype_acc = DType::int32;
      break;
    default:
      break;
  }
  return p;
}

Signature signature_of(const GemmProblem& p) noexcept {
  return {Op::gemm, p.dtype_a, p.dtype_b, p.dtype_c, p.dtype_acc, p.layout, p.epilogue, p.accumulate};
}

LeadingDimensions leading_dimensions(const GemmProblem& p) noexcept {
  return {p.lda ? p.lda : shape_a(p).length, p.ldb ? p.ldb : shape_b(p).length,
          p.ldc ? p.ldc : shape_c(p).length};
}

OperandElements operand_elements(const GemmProblem& p) {
  std::array<std::int64_t, 3> counts = {};
  const auto operands = operands_of(p);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const auto found = elements(operands[i].name, operands[i].shape, operands[i].leading, p.batch);
    if (const auto* fault = std::get_if<Fault>(&found)) fail_for(p, *fault);
    counts[i] = std::get<std::int64_t>(found);
  }
  return {counts[0], counts[1], counts[2]};
}

double flop_count(const GemmProblem& p) noexcept {
  return 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k) *
         static_cast<double>(p.batch);
}

double min_bytes(const GemmProblem& p) noexcept {
  const auto m = static_cast<double>(p.m), n = static_cast<double>(p.n), k = static_cast<double>(p.k);
  const double c_bytes = m * n * bytes_per_element(p.dtype_c) * (p.accumulate ? 2 : 1);
  return static_cast<double>(p.batch) *
         (m * k * bytes_per_element(p.dtype_a) + k * n * bytes_per_element(p.dtype_b) + c_bytes);
}

void check(const GemmProblem& p) {
  if (const auto fault = find_fault(p)) fail_for(p, *fault);
}

bool is_valid(const GemmProblem& p) noexcept { return !find_fault(p); }

std::string print(const GemmProblem& p) {
  const GemmProblem plain = make_gemm(p.m, p.n, p.k, p.dtype_a, p.layout);
  return fmt::format("gemm:{}x{}x{}:{}:{}", p.m, p.n, p.k, word(p.dtype_a), word(p.layout)) +
         assignments(p, plain);
}

void set_fields(GemmProblem& p, std::span<const GivenField> given) {
  set_given_fields<GemmProblem>(p, given, {product_types<GemmProblem>()});
}

GemmProblem parse_problem(std::string_view text) {
  const auto op = line_op(text);
  if (op && *op != Op::gemm) {
    fail(Errc::invalid_argument, "'{}' is a {}, and a GEMM is needed here; write {}", text,
         operation(*op).noun, operation(Op::gemm).syntax(Op::gemm));
  }
  return problem_of(fields_of_line(text)).gemm();
}

}  // namespace kscout
