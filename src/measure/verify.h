#pragma once
/// \file
/// Whether a GEMM's result is right, against references in float64 that are computed once per problem.
///
///     const GemmReference reference(problem, operands);
///     const Verification found = reference.check(c);    // found.error <= 1: right
///
/// Small problems (up to 2^19 products a*b) are compared element by element. Larger ones by
///  - elements at corners, around tile edges (multiples of 8 to 256 and where the last tile begins) and at
///    random places, each against its own dot product, and
///  - Freivalds' check of every row: C x against A (B x) for a random x with 0.5 <= |x_j| <= 1.5
///    (R. Freivalds, "Probabilistic machines can use less running time", IFIP 1977): one wrong element always
///    shows when it is wrong by more than the row's tolerance. Cost: one pass over C.
///
/// Tolerance. With u the unit round-off of the accumulator (fp32: 2^-24) and operands of mean zero, partial
/// sums grow like a random walk, so that the error of a dot product of any length and any order of summation
/// has a standard deviation below u |a_i| |b_j| / 2 (Euclidean norms of the row and the column). We allow
/// 8 u |a_i| |b_j|: 16 deviations for long sums, and no less than the worst case for k <= 8. Storing C adds
/// 2 u_c times the size of an element (u_c: round-off of C's type). A row of Freivalds' check adds
/// independent errors: the same with |b_j| replaced by sqrt(sum_j x_j^2 |b_j|^2).
/// `error` is the largest |difference| / tolerance. Integers must be exact.
#include <cstdint>
#include <string>
#include <vector>

#include <kscout/problem.h>

#include "measure/operands.h"

namespace kscout {

struct Verification {
  double error = 0;   ///< largest difference over its tolerance; infinite for NaN; <= 1 is right
  std::string where;  ///< the worst place with both values; empty when right
};

class GemmReference {
 public:
  /// Reads A, B and the initial C. At most about 1 ns per product a*b for small problems, 1 ns per element
  /// of A and B for large ones.
  GemmReference(const GemmProblem& problem, const GemmOperands& operands);

  /// `c` has the layout of the problem's C.
  Verification check(const void* c) const;

 private:
  struct Element {
    std::int64_t item, row, column;
    double value, tolerance;
  };
  struct Row {
    double value, tolerance;  ///< of C x
  };

  void add_element(const GemmOperands& operands, std::int64_t item, std::int64_t row, std::int64_t column);
  void add_all_elements(const GemmOperands& operands);
  void add_sampled_elements(const GemmOperands& operands);
  void add_row_checks(const GemmOperands& operands);

  GemmProblem problem_;
  double sum_round_off_, store_round_off_;
  std::vector<Element> elements_;
  std::vector<double> x_;  ///< Freivalds' vector; empty when every element is compared
  std::vector<Row> rows_;  ///< batch x m
};

}  // namespace kscout
