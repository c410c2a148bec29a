#pragma once
/// \file
/// Turns the arrays of a run() call into the operands of a problem of any operation.
///
///     const ArrayOperands& rules = array_operands(problem.kind());
///     dispatcher.run(problem, rules.buffers(problem, call, c));
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <nanobind/nanobind.h>

#include <kscout/backend.h>

#include "arrays.h"
#include "op/operation.h"

namespace kscout::python {

/// The arrays of a run() call. Inputs are a, b, then those in `further` by name; the result is c.
struct ArrayCall {
  InputArray a;
  std::optional<InputArray> b;
  nanobind::object c;  ///< None: a new NumPy array
  double alpha = 1, beta = 0;
  std::map<std::string, InputArray> further = {};
  bool b_is_packed = false;  ///< a GEMM whose B was packed before: there is no b

  const InputArray& second(const Problem& problem) const;  ///< b; throws invalid_argument without one
};

/// How arrays become the operands of an operation's problems.
struct ArrayOperands {
  /// Throws invalid_argument, naming the array, for one that does not match the problem.
  Buffers (*buffers)(const Problem& problem, const ArrayCall& call, const OutputArray& c);
  Sizes (*result_shape)(const Problem& problem);  ///< of a new array for the result
};

/// An operation without an entry of its own takes packed arrays with the sizes of its tensors in memory
/// order.
const ArrayOperands& array_operands(Op kind) noexcept;

/// Sets the operands in call.further, which are packed. Throws invalid_argument for a name that the problem
/// does not have, a required operand (except a, b and c) that is left out, and an array that does not match.
void set_further_operands(const Problem& problem, const ArrayCall& call, Buffers& buffers);

}  // namespace kscout::python
