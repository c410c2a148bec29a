#pragma once
/// \file
/// A problem of any operation: what tables of measurements hold, and what code takes that serves all of them.
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

  /// `use(problem)` with the GemmProblem or ConvProblem.
  template <class F>
  decltype(auto) visit(F&& use) const {
    return std::visit(std::forward<F>(use), of_);
  }
  Op op() const noexcept;
  double weight() const noexcept;
  void set_weight(double weight) noexcept;
  /// Throws unsupported when it is something else.
  KSCOUT_API const GemmProblem& gemm() const;
  KSCOUT_API const ConvProblem& conv() const;
  /// As the kind named: gemm() or conv().
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

/// Looks at a problem of any operation; as cheap as a pointer. The problem must outlive it.
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
  /// Throws unsupported when it is something else.
  KSCOUT_API const GemmProblem& as_gemm() const;
  /// Null when it is something else.
  const GemmProblem* gemm() const noexcept { return gemm_; }
  const ConvProblem* conv() const noexcept { return conv_; }

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

// What the kinds of problems have in common: see problem.h and conv_problem.h.
KSCOUT_API Signature signature_of(ProblemRef problem) noexcept;
KSCOUT_API double flop_count(ProblemRef problem) noexcept;
KSCOUT_API double min_bytes(ProblemRef problem) noexcept;
KSCOUT_API void check(ProblemRef problem);
KSCOUT_API std::string print(ProblemRef problem);

/// Reads the one-line form of any operation.
KSCOUT_API Problem parse_any_problem(std::string_view text);

/// The product that a problem is, or is computed as: `groups` is a GEMM's batch.
KSCOUT_API ImplicitGemm product_of(ProblemRef problem) noexcept;

/// What makes two problems the same in all but types and layout: m, n, k, batch of a GEMM; every number of a
/// convolution but split_k. Problems of equal sizes stay in one part when data are split.
using ProblemSizes = std::vector<std::int64_t>;
KSCOUT_API ProblemSizes sizes_of(ProblemRef problem);

}  // namespace kscout

template <>
struct std::hash<kscout::Problem> {
  std::size_t operator()(const kscout::Problem& problem) const {
    return problem.visit([](const auto& of) { return kscout::fields_hash(of); });
  }
};
