#include "op/forms.h"

#include <algorithm>

namespace kscout {

OperandCopy copy_of(const MatrixView& from, const MatrixView& to, std::int64_t items) {
  const std::int64_t bytes = bytes_of(from.dtype);
  const bool transposed = from.row_major != to.row_major;
  const std::int64_t lines = std::min(from.lines(), transposed ? to.length() : to.lines());
  const std::int64_t length = std::min(from.length(), transposed ? to.lines() : to.length());
  return {.copy = {.from = nullptr,
                   .to = nullptr,
                   .lines = lines,
                   .line_bytes = length * bytes,
                   .to_lines = to.lines(),
                   .to_line_bytes = to.length() * bytes,
                   .from_pitch = from.leading * bytes,
                   .to_pitch = to.leading * bytes,
                   .items = items,
                   .from_item = from.batch_stride * bytes,
                   .to_item = to.batch_stride * bytes},
          .element_bytes = transposed ? bytes : 0};
}

CopiedOperand copied_operand(const MatrixView& from, const MatrixView& to, bool copied, std::int64_t items) {
  const std::int64_t bytes = bytes_of(from.dtype);
  return {.copied = copied,
          .in = copy_of(from, to, items),
          .back = copy_of(to, from, items),
          .bytes = to.batch_stride * items * bytes,
          .item_bytes = from.batch_stride * bytes};
}

namespace {

/// Bytes that a copy reads and writes.
double bytes_moved(const OperandCopy& how) {
  const MatrixCopy& one = how.copy;
  const auto area = [](std::int64_t lines, std::int64_t bytes) {
    return static_cast<double>(lines) * static_cast<double>(bytes);
  };
  return (area(one.lines, one.line_bytes) + area(one.to_lines, one.to_line_bytes)) *
         static_cast<double>(one.items * how.repeats);
}

}  // namespace

ExecutionForm with_copy_bytes(ProblemRef problem, ExecutionForm form) {
  form.copy_bytes = 0;
  const CopiedOperands all = operation(problem.kind()).copied_operands(problem, form);
  const auto add = [&](bool copied, const OperandCopy& how) {
    if (copied) form.copy_bytes += bytes_moved(how) * static_cast<double>(form.calls);
  };
  const Operation& of = operation(problem.kind());
  const std::size_t result = of.operands(problem).result().at;
  for (std::size_t at = 0; at < all.at.size(); ++at) {
    const bool packed = at == of.packable && (form.packs || of.is_prepacked(problem));
    add(form.copied[at] && !packed && (at != result || signature_of(problem).accumulate), all.at[at].in);
    add(form.copied[at] && at == result, all.at[at].back);
  }
  return form;
}

}  // namespace kscout
