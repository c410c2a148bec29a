#pragma once
/// \file
/// Compares results with references that are computed once per problem.
///
///     const auto reference = make_reference(problem, operands);
///     const Verification found = reference->check(operands.c());    // found.error <= 1: right
#include <memory>
#include <string>

#include "op/operands.h"

namespace kscout {

struct Verification {
  double error = 0;   ///< largest ratio of difference to tolerance; infinite for NaN; <= 1 is right
  std::string where;  ///< the worst position with both values; empty when right
};

/// The reference that a result is compared with.
class Reference {
 public:
  virtual ~Reference() = default;
  /// `c` has the layout of the problem's result and is in the memory of the operands.
  virtual Verification check(const void* c) const = 0;
};

/// Reads the operands, which must live as long as their instruments.
std::unique_ptr<Reference> make_reference(ProblemRef problem, const GemmOperands& operands);

}  // namespace kscout
