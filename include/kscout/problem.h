#pragma once
/// \file
/// Describes a GEMM: its sizes and its signature.
///
///     auto p = kscout::parse_problem("gemm:4096x4096x512:fp32:rcr");
///     p.batch = 2;
///     kscout::check(p);                       // throws when the sizes make no sense
///     double flops = kscout::flop_count(p);   // 2 m n k batch
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <kscout/fields.h>
#include <kscout/types.h>

namespace kscout {

/// The part of a problem that determines types and code, without sizes.
struct Signature {
  Op op = Op::gemm;
  DType dtype_a = DType::fp32;
  DType dtype_b = DType::fp32;
  DType dtype_c = DType::fp32;
  DType dtype_acc = DType::fp32;
  Layout layout = Layout::rcr;
  Epilogue epilogue = Epilogue::none;
  bool accumulate = false;  ///< beta != 0: C is read
  bool operator==(const Signature&) const = default;
};

/// C(m,n) = alpha * A(m,k) * B(k,n) + beta * C, `batch` times.
struct GemmProblem {
  std::int64_t m = 0;        ///< rows of A and C, in elements; 0 is an empty C
  std::int64_t n = 0;        ///< columns of B and C
  std::int64_t k = 0;        ///< columns of A, rows of B; 0 computes beta * C
  std::int64_t batch = 1;    ///< independent products; operands of one batch follow each other
  std::int64_t split_k = 0;  ///< requested split of K; 0 = the selector chooses, 1 = none
  std::int64_t lda = 0;      ///< elements between rows (row-major) or columns; 0 = packed
  std::int64_t ldb = 0;
  std::int64_t ldc = 0;
  DType dtype_a = DType::fp32;
  DType dtype_b = DType::fp32;
  DType dtype_c = DType::fp32;
  DType dtype_acc = DType::fp32;
  Layout layout = Layout::rcr;
  Epilogue epilogue = Epilogue::none;
  bool accumulate = false;  ///< beta != 0: C is read
  double weight = 1;  ///< how often a workload calls it; its weight in reports; not part of the identity
  bool operator==(const GemmProblem& other) const;
};

template <>
struct Fields<Signature> {
  using T = Signature;
  static constexpr auto list = std::tuple{
      Field{"op", &T::op, "1", "operation"},
      Field{"dtype_a", &T::dtype_a, "1", "element type of A"},
      Field{"dtype_b", &T::dtype_b, "1", "element type of B"},
      Field{"dtype_c", &T::dtype_c, "1", "element type of C"},
      Field{"dtype_acc", &T::dtype_acc, "1", "type of the accumulator"},
      Field{"layout", &T::layout, "1", "storage of A, B, C: r = row-major, c = column-major"},
      Field{"epilogue", &T::epilogue, "1", "what is applied to C before it is stored"},
      Field{"accumulate", &T::accumulate, "1", "beta != 0: C is read"},
  };
};

template <>
struct Fields<GemmProblem> {
  using T = GemmProblem;
  static constexpr auto list = std::tuple{
      Field{"m", &T::m, "elements", "rows of A and C"},
      Field{"n", &T::n, "elements", "columns of B and C"},
      Field{"k", &T::k, "elements", "columns of A, rows of B"},
      Field{"batch", &T::batch, "1", "independent products"},
      Field{"split_k", &T::split_k, "1", "requested split of K; 0 = free choice, 1 = none"},
      Field{"lda", &T::lda, "elements", "leading dimension of A; 0 = packed"},
      Field{"ldb", &T::ldb, "elements", "leading dimension of B; 0 = packed"},
      Field{"ldc", &T::ldc, "elements", "leading dimension of C; 0 = packed"},
      Field{"dtype_a", &T::dtype_a, "1", "element type of A"},
      Field{"dtype_b", &T::dtype_b, "1", "element type of B"},
      Field{"dtype_c", &T::dtype_c, "1", "element type of C"},
      Field{"dtype_acc", &T::dtype_acc, "1", "type of the accumulator"},
      Field{"layout", &T::layout, "1", "storage of A, B, C: r = row-major, c = column-major"},
      Field{"epilogue", &T::epilogue, "1", "what is applied to C before it is stored"},
      Field{"accumulate", &T::accumulate, "1", "beta != 0: C is read"},
      Field{"weight", &T::weight, "calls", "how often a workload calls it", FieldRole::note},
  };
};

inline bool GemmProblem::operator==(const GemmProblem& other) const { return fields_equal(*this, other); }

/// Names the operation of a struct of problems: `kind` is its first op, op(problem) the op of one problem.
template <class P>
struct ProblemOf;
template <>
struct ProblemOf<GemmProblem> {
  static constexpr Op kind = Op::gemm;
  static constexpr Op op(const GemmProblem& /*problem*/) noexcept { return kind; }
};

/// How a caller gave a field: its position in a problem text, name=value, a command line's flag, or nothing
/// but what other fields imply (a stated value replaces it).
enum class GivenAs : std::uint8_t { position, assignment, flag, implied };

/// A field by name, with its value as text. The views must outlive it.
struct GivenField {
  std::string_view name;
  std::string_view value;
  GivenAs as = GivenAs::assignment;
};

/// Sets the given fields, in any order. `dtype` stands for all element types, as make_gemm sets them; a
/// specific field wins over it. Throws invalid_argument, with the values and the remedy, for an unknown
/// field, a field that is given twice, and a general field without effect. Does not check() the problem.
void set_fields(GemmProblem& problem, std::span<const GivenField> given);

/// A GEMM of one element type for A, B and C, with the usual accumulator and output types of that type (fp32
/// accumulator; int8 accumulates and stores int32; fp8 and bf8 store fp16).
GemmProblem make_gemm(std::int64_t m, std::int64_t n, std::int64_t k, DType dtype = DType::fp32,
                      Layout layout = Layout::rcr);

Signature signature_of(const GemmProblem& problem) noexcept;

/// The problem's leading dimensions, in elements, with 0 replaced by the packed value.
struct LeadingDimensions {
  std::int64_t a, b, c;
};
LeadingDimensions leading_dimensions(const GemmProblem& problem) noexcept;

/// Elements that the buffers of A, B, C span, over all batch items and including leading dimensions. Throws
/// invalid_argument when a size exceeds 2^62 elements.
struct OperandElements {
  std::int64_t a, b, c;
};
OperandElements operand_elements(const GemmProblem& problem);

/// 2 m n k batch, as a double: exact up to 2^53, never overflows.
double flop_count(const GemmProblem& problem) noexcept;

/// Minimum number of bytes moved: A and B read once, C written once (and read once when accumulating).
double min_bytes(const GemmProblem& problem) noexcept;

/// Throws Error(invalid_argument) when a size is negative, batch < 1, a leading dimension is too small, or an
/// operand would exceed 2^62 elements. m, n, k of 0 are legal.
void check(const GemmProblem& problem);
/// Whether check() accepts the problem.
bool is_valid(const GemmProblem& problem) noexcept;

/// Prints the one-line form: `gemm:MxNxK:dtype:layout`, then `:name=value` for every field that differs from
/// its default (weight included). Mixed types print as `dtype_b=...`. parse_problem(print(p)) == p.
std::string print(const GemmProblem& problem);

/// Reads the one-line form; `dtype` and `layout` are optional (default fp32, rcr); fields as for set_fields.
/// Throws invalid_argument with the offending part.
GemmProblem parse_problem(std::string_view text);

}  // namespace kscout

template <>
struct std::hash<kscout::GemmProblem> {
  std::size_t operator()(const kscout::GemmProblem& problem) const { return kscout::fields_hash(problem); }
};
