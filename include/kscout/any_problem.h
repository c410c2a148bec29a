#pragma once
/// \file
/// Holds a problem of any operation as a record of numbers: for tables of measurements and code that handles
/// all operations.
///
///     const Problem problem = parse_any_problem("conv_fwd:8x64x56x56:128x3x3:bf16:nhwgc:pad=1");
///     std::int64_t channels = problem["c"];
///     void rank(ProblemRef problem);       // takes a GemmProblem, a ConvProblem or a Problem
///     rank(make_gemm(64, 64, 64));
///
/// GemmProblem and ConvProblem are the same records as structs. Code of one operation uses the struct; all
/// other code uses the fields that the operation's ProblemSpace lists.
#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <kscout/conv_problem.h>
#include <kscout/problem.h>
#include <kscout/size_list.h>

namespace kscout {

/// What the number of a field means.
enum class FieldType : std::uint8_t {
  whole,  ///< itself
  flag,   ///< 0 or 1
  word,   ///< a position in ProblemField::words
  real,   ///< the bits of a double
  list,   ///< the digest of a list of sizes, which the problem holds (Problem::list)
};

/// One field of the problems of an operation.
struct ProblemField {
  std::string_view name;
  std::string_view unit;  ///< "1" without a unit
  std::string_view help;
  FieldType type = FieldType::whole;
  std::int64_t initial = 0;  ///< the default
  /// For a word: the name of its enum in messages, and the words of the values 0, 1, ...
  std::string_view what = {};
  std::span<const std::string_view> words = {};
  FieldRole role = FieldRole::identity;
};

/// The fields of the problems of an operation. The last one is `weight`; the first one is `op` where an
/// operation has several. Spaces are constants of the program and compared by address.
struct ProblemSpace {
  std::string_view operation;  ///< "gemm", "conv"
  std::span<const ProblemField> fields;

  /// Position of a field; throws invalid_argument naming the nearest field.
  std::size_t index(std::string_view name) const;
};

/// The space of an operation's problems; all directions of a convolution share one.
const ProblemSpace& problem_space(Op op) noexcept;

inline constexpr std::size_t kMaxProblemFields = 32;

/// A struct with the fields of an operation.
template <class P>
concept ProblemStruct = Record<P> && requires(const P& problem) {
  { ProblemOf<P>::kind } -> std::convertible_to<Op>;
  { ProblemOf<P>::op(problem) } -> std::convertible_to<Op>;
};

/// Holds a problem of any operation.
class Problem {
 public:
  Problem() : Problem(GemmProblem{}) {}
  template <ProblemStruct P>
  Problem(const P& problem) noexcept  // NOLINT: a struct is a problem
      : kind_(ProblemOf<P>::kind), op_(ProblemOf<P>::op(problem)), fields_(field_count<P>) {
    static_assert(field_count<P> <= kMaxProblemFields);
    std::size_t at = 0;
    for_each_field<P>([&](const auto& field) {
      if constexpr (std::is_same_v<typename std::remove_cvref_t<decltype(field)>::value, SizeList>)
        list_ = problem.*field.member;
      value_[at++] = bits_of(problem.*field.member);
    });
  }

  Op op() const noexcept { return op_; }
  /// The first op of the operation: the same for all directions of a convolution.
  Op kind() const noexcept { return kind_; }
  const ProblemSpace& space() const noexcept { return problem_space(kind_); }

  /// A field's number (FieldType), by position in the space or by name.
  std::int64_t operator[](std::size_t field) const noexcept { return value_[field]; }
  std::int64_t operator[](std::string_view field) const { return value_[space().index(field)]; }
  /// Sets a field other than `op`.
  void set(std::size_t field, std::int64_t value) noexcept { value_[field] = value; }
  void set(std::string_view field, std::int64_t value) { value_[space().index(field)] = value; }
  /// The list that a field of type `list` stands for; a problem has at most one.
  const SizeList& list() const noexcept { return list_; }
  void set_list(std::size_t field, SizeList list) noexcept {
    value_[field] = list.digest();
    list_ = std::move(list);
  }
  /// The numbers of all fields, in order.
  std::span<const std::int64_t> values() const noexcept { return std::span(value_).first(fields_); }

  double weight() const noexcept { return std::bit_cast<double>(value_[fields_ - 1]); }
  void set_weight(double weight) noexcept { value_[fields_ - 1] = std::bit_cast<std::int64_t>(weight); }

  /// Whether the problem is of the operation of struct P.
  template <ProblemStruct P>
  bool is() const noexcept {
    return kind_ == ProblemOf<P>::kind;
  }
  /// The problem as struct P; throws unsupported when it is of another operation.
  template <ProblemStruct P>
  P as() const {
    require(ProblemOf<P>::kind);
    P problem;
    std::size_t at = 0;
    for_each_field<P>([&](const auto& field) {
      using V = typename std::remove_cvref_t<decltype(field)>::value;
      if constexpr (std::is_floating_point_v<V>) {
        problem.*field.member = std::bit_cast<V>(value_[at++]);
      } else if constexpr (std::is_same_v<V, SizeList>) {
        problem.*field.member = list_;
        ++at;
      } else {
        problem.*field.member = static_cast<V>(value_[at++]);
      }
    });
    return problem;
  }
  GemmProblem gemm() const { return as<GemmProblem>(); }
  ConvProblem conv() const { return as<ConvProblem>(); }

  /// Compares all fields except the weight.
  bool operator==(const Problem& other) const noexcept {
    return kind_ == other.kind_ && std::ranges::equal(identity(), other.identity()) && list_ == other.list_;
  }
  std::uint64_t hash() const noexcept {
    std::uint64_t hash = static_cast<std::uint64_t>(kind_);
    for (const std::int64_t value : identity()) hash = mix_hash(hash, static_cast<std::uint64_t>(value));
    return hash;
  }

 private:
  template <class V>
  static std::int64_t bits_of(const V& value) noexcept {
    if constexpr (std::is_floating_point_v<V>) {
      return std::bit_cast<std::int64_t>(value);
    } else {
      return static_cast<std::int64_t>(value);
    }
  }
  std::span<const std::int64_t> identity() const noexcept { return std::span(value_).first(fields_ - 1u); }
  /// Throws unsupported unless the problem is of the operation of `kind`.
  void require(Op kind) const;

  Op kind_, op_;
  std::uint8_t fields_;
  std::array<std::int64_t, kMaxProblemFields> value_{};
  SizeList list_;
};

/// Refers to a problem of any operation; as cheap to copy as two pointers. The problem must outlive the
/// reference.
class ProblemRef {
 public:
  template <ProblemStruct P>
  ProblemRef(const P& problem) noexcept
      : problem_(&problem), type_(&kType<P>) {}                        // NOLINT: converts at calls
  ProblemRef(const Problem& problem) noexcept : problem_(&problem) {}  // NOLINT

  Op op() const noexcept { return type_ ? type_->op(problem_) : record().op(); }
  /// The first op of the operation: the same for all directions of a convolution.
  Op kind() const noexcept { return type_ ? type_->kind : record().kind(); }
  const ProblemSpace& space() const noexcept { return problem_space(kind()); }

  template <ProblemStruct P>
  bool is() const noexcept {
    return kind() == ProblemOf<P>::kind;
  }
  /// The struct, when the reference was made from a P; else null. Faster than as().
  template <ProblemStruct P>
  const P* struct_of() const noexcept {
    return type_ && type_->kind == ProblemOf<P>::kind ? static_cast<const P*>(problem_) : nullptr;
  }
  /// A copy as struct P; throws unsupported when the problem is of another operation.
  template <ProblemStruct P>
  P as() const {
    if (const P* const known = struct_of<P>()) return *known;
    return type_ ? type_->copy(problem_).template as<P>() : record().as<P>();
  }
  /// A copy of the problem.
  Problem value() const noexcept { return type_ ? type_->copy(problem_) : record(); }

 private:
  /// What is done with a struct.
  struct Type {
    Op kind;
    Op (*op)(const void* problem) noexcept;
    Problem (*copy)(const void* problem) noexcept;
  };
  template <ProblemStruct P>
  static constexpr Type kType = {
      ProblemOf<P>::kind,
      [](const void* problem) noexcept -> Op { return ProblemOf<P>::op(*static_cast<const P*>(problem)); },
      [](const void* problem) noexcept { return Problem(*static_cast<const P*>(problem)); }};

  const Problem& record() const noexcept { return *static_cast<const Problem*>(problem_); }

  const void* problem_;
  const Type* type_ = nullptr;  ///< of the struct; null: `problem_` is a Problem
};

// Functions that exist for every operation: see problem.h and conv_problem.h.
Signature signature_of(ProblemRef problem) noexcept;
double flop_count(ProblemRef problem) noexcept;
double min_bytes(ProblemRef problem) noexcept;
void check(ProblemRef problem);
bool is_valid(ProblemRef problem) noexcept;
std::string print(ProblemRef problem);

/// Reads the one-line form of any operation.
Problem parse_any_problem(std::string_view text);

/// The matrix product that computes a problem: the GEMM itself (`groups` is its batch) or the implicit GEMM
/// of a convolution.
ImplicitGemm product_of(ProblemRef problem) noexcept;

/// The sizes of a problem, without types and layout: m, n, k, batch of a GEMM; every number of a convolution
/// except split_k. When data are split into training and test parts, problems of equal sizes stay in one
/// part.
using ProblemSizes = std::vector<std::int64_t>;
ProblemSizes sizes_of(ProblemRef problem);

}  // namespace kscout

template <>
struct std::hash<kscout::Problem> {
  std::size_t operator()(const kscout::Problem& problem) const noexcept { return problem.hash(); }
};
