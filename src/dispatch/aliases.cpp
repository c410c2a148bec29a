#include "dispatch/aliases.h"

#include <cmath>
#include <cstdint>

#include "core/fail.h"
#include "op/operation.h"

namespace kscout {

namespace {

/// Lines of bytes at equal distances.
struct Extent {
  std::int64_t begin = 0;  ///< address
  std::int64_t bytes = 0;  ///< from the first to the last byte, gaps included; 0: empty
  std::int64_t line = 0, pitch = 0;
};

std::int64_t address(const void* memory) {
  return static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(memory));
}

Extent extent_of(const void* memory, const Tensor& tensor) {
  const auto sizes = std::span(tensor.sizes).first(tensor.rank);
  if (!memory || std::ranges::find(sizes, 0) != sizes.end()) return {};
  const double element = bytes_per_element(tensor.dtype);
  const auto bytes = [&](std::int64_t elements) {
    return static_cast<std::int64_t>(std::ceil(static_cast<double>(elements) * element));
  };
  // Axes without gaps form one line; the next axis is the distance between lines.
  std::size_t axis = tensor.rank - 1;
  std::int64_t line = sizes[axis];
  while (axis > 0 && tensor.strides[axis - 1] == line) line *= sizes[--axis];
  std::int64_t last = line;
  for (std::size_t i = 0; i < axis; ++i) last += (sizes[i] - 1) * tensor.strides[i];
  return {address(memory), bytes(last), bytes(line), bytes(axis > 0 ? tensor.strides[axis - 1] : line)};
}

bool share_elements(const Extent& a, const Extent& b) {
  if (a.bytes == 0 || b.bytes == 0) return false;
  if (a.begin + a.bytes <= b.begin || b.begin + b.bytes <= a.begin) return false;
  if (a.pitch != b.pitch) return true;
  // Both within the same lines.
  const std::int64_t apart = ((b.begin - a.begin) % a.pitch + a.pitch) % a.pitch;
  return apart < a.line || apart + b.line > a.pitch;
}

}  // namespace

void refuse_aliases(ProblemRef problem, const Buffers& buffers) {
  const OperandList operands = operation(problem.kind()).operands(problem);
  const Tensor& result = operands.result();
  const Extent written = extent_of(buffers.operand[result.at], result);
  for (const Tensor& read : operands) {
    if (&read == &result || !share_elements(written, extent_of(buffers.operand[read.at], read))) continue;
    fail(Errc::invalid_argument,
         "{0}: operands {2} and {1} share memory, and {1} is read while {2} is written; give {2} memory of "
         "its own",
         print(problem), read.name, result.name);
  }
}

}  // namespace kscout
