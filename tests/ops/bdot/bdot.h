#pragma once
/// \file
/// Batched dot products, an operation that only the tests have: what a new operation consists of.
/// docs/adding.md goes through these files.
///
///     const Problem problem = parse_any_problem("bdot:64x1000");
#include <kscout/any_problem.h>

namespace kscout {

/// The number of the first op after those of the library.
inline constexpr Op kBdot{5};

/// c[i] = sum over j of a[i][j] * b[i][j], fp32.
struct BdotProblem {
  std::int64_t batch = 1;  ///< dot products
  std::int64_t n = 1;      ///< elements of each vector
  double weight = 1;
  bool operator==(const BdotProblem& other) const;
};

template <>
struct Fields<BdotProblem> {
  using T = BdotProblem;
  static constexpr auto list = std::tuple{
      Field{"batch", &T::batch, "1", "dot products"},
      Field{"n", &T::n, "elements", "length of the vectors"},
      Field{"weight", &T::weight, "calls", "how often a workload calls it", FieldRole::note},
  };
};
inline bool BdotProblem::operator==(const BdotProblem& other) const { return fields_equal(*this, other); }

template <>
struct ProblemOf<BdotProblem> {
  static constexpr Op kind = kBdot;
  static constexpr Op op(const BdotProblem& /*problem*/) noexcept { return kind; }
};

}  // namespace kscout
