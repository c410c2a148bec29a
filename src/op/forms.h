#pragma once
/// \file
/// Copies operands into other forms: larger sizes, another layout. Each operation says which forms it has,
/// and what to copy.
///
///     const CopiedOperands copies = operation(problem.kind()).copied_operands(problem, form);
#include <array>
#include <cstdint>

#include <kscout/launch.h>

#include "instruments/matrix_view.h"
#include "op/operation.h"

namespace kscout {

/// Copies an operand between the caller's memory and the workspace, in `repeats` calls that advance both
/// places by a step (bytes).
struct OperandCopy {
  MatrixCopy copy = {};
  std::int64_t element_bytes = 0;  ///< not 0: Memory::transpose
  std::int64_t repeats = 1, from_step = 0, to_step = 0;
};

/// An operand of a padded launch.
struct CopiedOperand {
  bool copied = false;
  OperandCopy in = {}, back = {};
  std::int64_t bytes = 0;       ///< of the copy
  std::int64_t item_bytes = 0;  ///< distance between the caller's operands of two calls
};
/// By the operands' positions in Buffers.
struct CopiedOperands {
  std::array<CopiedOperand, Buffers::max_operands> at = {};
};

/// Copies the elements that both views have, and fills the rest of `to` with zeros.
OperandCopy copy_of(const MatrixView& from, const MatrixView& to, std::int64_t items);
CopiedOperand copied_operand(const MatrixView& from, const MatrixView& to, bool copied, std::int64_t items);

/// A form with aligned lines. A config that is chosen for `chosen_for`, the problem with larger sizes,
/// computes it: models and rules know packed problems best.
struct AlignedForm {
  ExecutionForm form;
  Problem chosen_for;
};

/// Sets the bytes that the copies of one run read and write.
ExecutionForm with_copy_bytes(ProblemRef problem, ExecutionForm form);

/// Sizes are rounded up to multiples of these.
inline constexpr std::int64_t kGrains[] = {2, 4, 8, 16, 32, 64, 128, 256};
constexpr std::int64_t round_up(std::int64_t value, std::int64_t grain) noexcept {
  return (value + grain - 1) / grain * grain;
}
inline std::int64_t bytes_of(DType dtype) noexcept {
  return static_cast<std::int64_t>(bytes_per_element(dtype));
}

}  // namespace kscout
