#pragma once
/// \file
/// Holds a problem of any operation, GEMM or convolution: for tables of measurements and code that handles
/// both.
///
///     const Problem problem = parse_any_problem("conv_fwd:8x64x56x56:128x3x3:bf16:nhwgc:pad=1");
///     void rank(ProblemRef problem);       // takes a GemmProblem, a ConvProblem or a Problem
///     rank(make_gemm(64, 64, 64));
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <kscout/conv_problem.h>
#include <kscout/problem.h>

namespace kscout {

/// Holds a problem of any operation.
class Problem {
 public:
  Problem() = default;
  Problem(const GemmProblem& gemm) : of_(gemm) {}  // NOLINT: a GEMM is a problem
  Problem(const ConvProblem& conv) : of_(conv) {}  // NOLINT: so is a convolution

  /// Calls `use(problem)` with the GemmProblem or ConvProblem.
  template <class F>
  decltype(auto) visit(F&& use) const {
    return std::visit(std::forward<F>(use), of_);
  }
  Op op() const noexcept;
  double weight() const noexcept;
  void set_weight(double weight) noexcept;
  /// The GEMM; throws unsupported when the problem is a convolution. conv() is the counterpart for
  /// convolutions.
  KSCOUT_API const GemmProblem& gemm() const;
  KSCOUT_API const ConvProblem& conv() const;
  /// The problem as type P: gemm() or conv().
  template <class P>
  const P& as() const {
    if constexpr (std::is_same_v<P, GemmProblem>) {
      return gemm();
    } else {
      return conv();
    }
  }
  bool operator==(const Problem& other) const { return of_ == other.of_; }

 private:
  std::variant<GemmProblem, ConvProblem> of_;
};

/// Refers to a problem of any operation; as cheap to copy as a pointer. The problem must outlive the
/// reference.
class ProblemRef {
 public:
  ProblemRef(const GemmProblem& gemm) noexcept : gemm_(&gemm) {}  // NOLINT: converts at calls
  ProblemRef(const ConvProblem& conv) noexcept : conv_(&conv) {}  // NOLINT
  ProblemRef(const Problem& problem) noexcept {                   // NOLINT
    problem.visit([this](const auto& of) { *this = ProblemRef(of); });
  }

  template <class F>
  decltype(auto) visit(F&& use) const {
    return gemm_ ? std::forward<F>(use)(*gemm_) : std::forward<F>(use)(*conv_);
  }
  /// The GEMM; throws unsupported when the problem is a convolution.
  KSCOUT_API const GemmProblem& as_gemm() const;
  /// The GEMM, or null when the problem is a convolution; conv() is the counterpart for convolutions.
  const GemmProblem* gemm() const noexcept { return gemm_; }
  const ConvProblem* conv() const noexcept { return conv_; }
  /// A copy of the problem.
  Problem value() const {
    return visit([](const auto& of) { return Problem(of); });
  }

 private:
  const GemmProblem* gemm_ = nullptr;
  const ConvProblem* conv_ = nullptr;
};

inline Op Problem::op() const noexcept {
  const auto* conv = std::get_if<ConvProblem>(&of_);
  return conv ? conv->op : Op::gemm;
}
inline double Problem::weight() const noexcept {
  return visit([](const auto& of) { return of.weight; });
}
inline void Problem::set_weight(double weight) noexcept {
  std::visit([weight](auto& of) { of.weight = weight; }, of_);
}

// Functions that exist for both kinds of problems: see problem.h and conv_problem.h.
KSCOUT_API Signature signature_of(ProblemRef problem) noexcept;
KSCOUT_API double flop_count(ProblemRef problem) noexcept;
KSCOUT_API double min_bytes(ProblemRef problem) noexcept;
KSCOUT_API void check(ProblemRef problem);
KSCOUT_API std::string print(ProblemRef problem);

/// Reads the one-line form of any operation.
KSCOUT_API Problem parse_any_problem(std::string_view text);

/// The matrix product that computes a problem: the GEMM itself (`groups` is its batch) or the implicit GEMM
/// of a convolution.
KSCOUT_API ImplicitGemm product_of(ProblemRef problem) noexcept;

/// The sizes of a problem, without types and layout: m, n, k, batch of a GEMM; every number of a convolution
/// except split_k. When data are split into training and test parts, problems of equal sizes stay in one
/// part.
using ProblemSizes = std::vector<std::int64_t>;
KSCOUT_API ProblemSizes sizes_of(ProblemRef problem);

}  // namespace kscout

template <>
struct std::hash<kscout::Problem> {
  std::size_t operator()(const kscout::Problem& problem) const {
    return problem.visit([](const auto& of) { return kscout::fields_hash(of); });
  }
};
