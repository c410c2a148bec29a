#pragma once
/// \file
/// Verifies a GEMM's result against references in float64 that are computed once per problem.
///
///     const GemmReference reference(problem, operands);
///     const Verification found = reference.check(c);    // found.error <= 1: right
///
/// Small problems (up to 2^19 products a*b) are compared element by element. Larger ones by
///  - elements at corners, around tile edges (multiples of 8 to 256 and the start of the last tile) and at
///    random positions, each against its own dot product, and
///  - Freivalds' check of every row: C x against A (B x) for a random x with 0.5 <= |x_j| <= 1.5
///    (R. Freivalds, "Probabilistic machines can use less running time", IFIP 1977). It always finds a single
///    wrong element whose error exceeds the row's tolerance. Cost: one pass over C.
///
/// Tolerance. Let u be the unit round-off of the accumulator (fp32: 2^-24). With operands of mean zero,
/// partial sums grow like a random walk. The error of a dot product of any length, summed in any order, then
/// has a standard deviation below u |a_i| |b_j| / 2 (Euclidean norms of the row and the column). We allow 8 u
/// |a_i| |b_j|: 16 deviations for long sums, and at least the worst case for k <= 8.
///
/// Storing C adds 2 u_c times the size of an element (u_c: round-off of C's type) and twice the smallest
/// positive value of C's type, which matters where products of fp16 come near it. A row of Freivalds' check
/// adds independent errors: the same tolerance with |b_j| replaced by sqrt(sum_j x_j^2 |b_j|^2).
///
/// Matrix units add products of small types to an fp32 sum by truncation, not by rounding (M. Fasi et al.,
/// "Numerical behavior of NVIDIA tensor cores", PeerJ CS 2021). Such errors have the same sign: over the k/16
/// steps of a sum of size |a||b|/sqrt(k) they add up to about u sqrt(k)/12 |a_i| |b_j|, so u becomes u (1 +
/// sqrt(k)/32) for these types. Products of 8-bit types are summed with 13 bits before they reach the fp32
/// sum, so u grows by 2^-13 / sqrt(k).
///
/// With an epilogue, the product may be stored in C's type before the epilogue is applied, as programs do
/// that apply it in a step of its own, and as cuBLASLt does after some split-K sums: that adds 2 u_c times
/// the product's size.
///
/// After an epilogue that is not linear (relu, gelu), rows cannot be checked; more elements are compared
/// instead. `error` is the largest |difference| / tolerance. Integers must be exact.
#include <cstdint>
#include <vector>

#include <kscout/problem.h>

#include "op/reference.h"

namespace kscout {

/// What an epilogue makes of an element to which the bias is added.
double apply_epilogue(Epilogue epilogue, double x);

/// Operands of a GEMM in a device's memory.
struct GemmData {
  static GemmData of(const GemmOperands& operands) noexcept {
    return {.device = operands.device(),
            .a = operands.a(),
            .b = operands.b(),
            .initial_c = operands.initial_c(),
            .bias = operands.operand(3),
            .alpha = operands.alpha(),
            .beta = operands.beta()};
  }

  Instruments& device;
  const void* a;
  const void* b;
  const void* initial_c = nullptr;  ///< C before the run; null unless the problem accumulates
  const void* bias = nullptr;       ///< null without one
  double alpha = 1, beta = 0;
};

class GemmReference final : public Reference {
 public:
  /// Reads A, B, the initial C and the bias, which must live as long as their instruments. Cost: every
  /// product a*b of a small problem, a pass over A and B of a large one.
  GemmReference(const GemmProblem& problem, const GemmData& operands);
  GemmReference(const GemmProblem& problem, const GemmOperands& operands)
      : GemmReference(problem, GemmData::of(operands)) {}

  Verification check(const void* c) const override;

 private:
  struct Place {
    std::int64_t item, row, column;
    auto operator<=>(const Place&) const = default;
  };
  struct Element {
    std::int64_t item, row, column;
    double value, tolerance;
  };
  struct Row {
    double value, tolerance;  ///< of C x
  };

  /// `read`: beta times the initial C; `norms`: |a_row| |b_column|.
  void add_element(const Place& place, double product, double norms, double read, double bias);
  void add_all_elements(const GemmData& operands);
  void add_sampled_elements(const GemmData& operands);
  void add_row_checks(const GemmData& operands);
  /// n numbers, or empty without a bias.
  std::vector<double> bias_of(const GemmData& operands) const;

  Instruments& device_;
  GemmProblem problem_;
  double sum_round_off_, store_round_off_, store_step_;
  std::vector<Element> elements_;
  std::vector<std::int64_t> places_;  ///< indices of elements_ in C
  std::vector<double> x_;             ///< Freivalds' vector; empty when every element is compared
  std::vector<Row> rows_;             ///< batch x m rows
};

}  // namespace kscout
