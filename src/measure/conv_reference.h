#pragma once
/// \file
/// Is a convolution's result right? Compares it with float64 sums over the products of its definition.
///
///     const ConvReference reference(problem, operands);
///     if (!(reference.check(operands.c()).error <= 1)) ...
///
/// Small problems are compared element by element. Of large ones some elements are: the first and the last,
/// the first pixel's last channel, and others drawn at random; and every row of the result is summed, which
/// shows an element that was never written (operands begin as NaN). An error in an element that is not drawn
/// stays unseen: there is no check of all of them as Freivalds' of a GEMM.
///
/// Tolerance per element: that of verify.h. The filter's gradient may be added up from parts in its own type:
/// there each stored part may be rounded, which allows 8 round-offs of the size that a sum of products with
/// random signs has.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <kscout/conv_problem.h>

#include "measure/verify.h"

namespace kscout {

/// Elements of the operands A and B whose products add up to one element of C.
struct ConvProducts {
  std::vector<std::int64_t> a, b;
};

/// Those of an element, by its index in C. Products with padding are left out.
ConvProducts conv_products(const ConvProblem& problem, std::int64_t element);

class ConvReference final : public Reference {
 public:
  /// Reads A and B, which must live as long as their instruments do.
  ConvReference(const ConvProblem& problem, const GemmOperands& operands);
  Verification check(const void* c) const override;

 private:
  struct Element {
    double value, tolerance;
  };

  Instruments& device_;
  MatrixView rows_;                   ///< of C
  std::vector<std::int64_t> places_;  ///< of elements_, as indices into C
  std::vector<Element> elements_;
};

}  // namespace kscout
