#pragma once
/// \file
/// Describes a grouped GEMM: products that share n, k, types and layout, each with rows of its own. It is the
/// product of a mixture of experts, whose tokens are sorted by expert.
///
///     auto p = kscout::make_grouped_gemm(SizeList{128, 64, 0, 7}, 1408, 2048);
///     kscout::check(p);                        // throws when the sizes make no sense
///     double flops = kscout::flop_count(p);    // 2 (128 + 64 + 0 + 7) n k
///
/// Operands follow each other in memory, without gaps: a (sum of M, k), b (groups, n, k), with layout rrr
/// (groups, k, n), and c (sum of M, n).
#include <cstdint>
#include <span>
#include <string>

#include <kscout/any_problem.h>

namespace kscout {

/// C_g(m_g,n) = alpha * A_g(m_g,k) * B_g(k,n) for every group g.
struct GroupedGemmProblem {
  /// Most groups of a problem, and most rows of a group.
  static constexpr std::int64_t max_groups = 1024, max_rows = 0x7FFFFFFF;

  SizeList m;          ///< rows of A and C of each group; 0 is a group without rows
  std::int64_t n = 0;  ///< columns of B and C
  std::int64_t k = 0;  ///< columns of A, rows of B; 0 sets C to 0
  DType dtype_a = DType::fp32;
  DType dtype_b = DType::fp32;
  DType dtype_c = DType::fp32;
  DType dtype_acc = DType::fp32;
  Layout layout = Layout::rcr;
  // These follow from m: derive() sets them.
  std::int64_t groups = 0;       ///< products, those without rows included
  std::int64_t m_sum = 0;        ///< rows of all groups
  std::int64_t m_max = 0;        ///< rows of the largest group
  std::int64_t m_filled = 0;     ///< groups with rows
  std::int64_t m_tiles_16 = 0;   ///< tiles of 16 rows: sum of ceil(m / 16)
  std::int64_t m_tiles_64 = 0;   ///< tiles of 64 rows
  std::int64_t m_tiles_128 = 0;  ///< tiles of 128 rows
  double weight = 1;  ///< how often a workload calls it; its weight in reports; not part of the identity
  bool operator==(const GroupedGemmProblem& other) const;
};

template <>
struct Fields<GroupedGemmProblem> {
  using T = GroupedGemmProblem;
  static constexpr auto derived = FieldRole::derived;
  static constexpr auto list = std::tuple{
      Field{"m", &T::m, "elements", "rows of each group, separated by +"},
      Field{"n", &T::n, "elements", "columns of B and C"},
      Field{"k", &T::k, "elements", "columns of A, rows of B"},
      Field{"dtype_a", &T::dtype_a, "1", "element type of A"},
      Field{"dtype_b", &T::dtype_b, "1", "element type of B"},
      Field{"dtype_c", &T::dtype_c, "1", "element type of C"},
      Field{"dtype_acc", &T::dtype_acc, "1", "type of the accumulator"},
      Field{"layout", &T::layout, "1", "storage of A, B, C: r = row-major, c = column-major"},
      Field{"groups", &T::groups, "1", "groups of m", derived},
      Field{"m_sum", &T::m_sum, "elements", "rows of all groups", derived},
      Field{"m_max", &T::m_max, "elements", "rows of the largest group", derived},
      Field{"m_filled", &T::m_filled, "1", "groups with rows", derived},
      Field{"m_tiles_16", &T::m_tiles_16, "1", "tiles of 16 rows of all groups", derived},
      Field{"m_tiles_64", &T::m_tiles_64, "1", "tiles of 64 rows of all groups", derived},
      Field{"m_tiles_128", &T::m_tiles_128, "1", "tiles of 128 rows of all groups", derived},
      Field{"weight", &T::weight, "calls", "how often a workload calls it", FieldRole::note},
  };
};

inline bool GroupedGemmProblem::operator==(const GroupedGemmProblem& other) const {
  return fields_equal(*this, other);
}

template <>
struct ProblemOf<GroupedGemmProblem> {
  static constexpr Op kind = Op::grouped_gemm;
  static constexpr Op op(const GroupedGemmProblem& /*problem*/) noexcept { return kind; }
};

/// A grouped GEMM with the types of make_gemm. Throws nothing for sizes that check() refuses.
GroupedGemmProblem make_grouped_gemm(SizeList m, std::int64_t n, std::int64_t k, DType dtype = DType::fp32,
                                     Layout layout = Layout::rcr);
/// Sets the members that follow from `m`; call it after a change of `m`.
void derive(GroupedGemmProblem& problem) noexcept;

/// As set_fields of a GemmProblem; a list is text, "128+64+0+7".
void set_fields(GroupedGemmProblem& problem, std::span<const GivenField> given);
Signature signature_of(const GroupedGemmProblem& problem) noexcept;
/// 2 n k (sum of m).
double flop_count(const GroupedGemmProblem& problem) noexcept;
/// Minimum number of bytes moved: A and the B of groups with rows are read once, C is written once.
double min_bytes(const GroupedGemmProblem& problem) noexcept;
/// Throws Error(invalid_argument) for no group or more than max_groups, a negative size, a group of more than
/// max_rows, an operand of more than 2^62 elements, a layout other than rcr and rrr, and derived members that
/// do not follow from `m`.
void check(const GroupedGemmProblem& problem);
bool is_valid(const GroupedGemmProblem& problem) noexcept;
/// Prints `grouped_gemm:M+M+...xNxK:dtype:layout`, then fields that differ from their defaults.
std::string print(const GroupedGemmProblem& problem);

}  // namespace kscout

template <>
struct std::hash<kscout::GroupedGemmProblem> {
  std::size_t operator()(const kscout::GroupedGemmProblem& problem) const {
    return kscout::fields_hash(problem);
  }
};
