#pragma once
/// \file
/// Is a convolution's result right? Compares it with float64 sums over the products of its definition.
///
///     const ConvReference reference(problem, operands);
///     if (!(reference.check(operands.c()).error <= 1)) ...
///
/// Small problems (up to 2^19 products and elements) are compared element by element. Larger ones by
///  - elements at corners, at the edges of tiles of 8 to 256 and at random places, each against its own
///    products: 8 to 4,096 of them, 2^20 products together;
///  - Freivalds' check of rows (conv_row_sums.h): the channels of a pixel, or of a place of a filter, added
///    up with random weights. One wrong element always shows when it is wrong by more than its
///    row's tolerance. All rows are checked when that takes at most 2^28 products, else as many as these pay,
///    drawn at random. An element that was never written (operands begin as NaN) shows in any row.
///
/// Tolerance per element: that of verify.h. The filter's gradient may be added up from parts in its own type:
/// there each stored part may be rounded, which allows 8 round-offs of the size that a sum of products with
/// random signs has.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <kscout/conv_problem.h>

#include "measure/conv_row_sums.h"
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
  ConvRows rows_;
  std::vector<std::int64_t> places_;  ///< of elements_, as indices into C
  std::vector<Element> elements_;
  std::vector<RowSum> sums_;  ///< none when every element is compared
};

}  // namespace kscout
