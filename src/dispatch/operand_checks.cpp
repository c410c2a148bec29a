#include "dispatch/operand_checks.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/fail.h"

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

/// A kernel reads A and B while it writes C.
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

}  // namespace

void refuse_null(ProblemRef problem, std::string_view operand, const void* memory) {
  if (!memory) fail(Errc::invalid_argument, "{}: '{}' is null; give it memory", print(problem), operand);
}

Tensor packable_operand(ProblemRef problem) {
  const Operation& of = operation(problem.kind());
  const OperandList operands = of.operands(problem);
  return *std::ranges::find(operands, of.packable, &Tensor::at);
}

const Buffers& checked(ProblemRef problem, const Buffers& buffers, bool packed) {
  check(problem);
  const Operation& of = operation(problem.kind());
  if (of.is_prepacked(problem) && !packed) {
    fail(Errc::invalid_argument,
         "{}: prepacked=1 needs a packed filter; make one with pack_filter and run that, or leave it out",
         print(problem));
  }
  if (buffers.alpha != 1 && !of.has_alpha) {
    fail(Errc::invalid_argument, "alpha={}: kernels of {} have no such factor; leave it out", buffers.alpha,
         of.plural);
  }
  if (buffers.beta != 0 && !signature_of(problem).accumulate) {
    fail(Errc::invalid_argument, "beta={} reads C, but {} does not accumulate; set accumulate=1",
         buffers.beta, print(problem));
  }
  if (!of.is_empty(problem)) {
    for (const Tensor& tensor : of.operands(problem)) {
      if (packed && tensor.at == of.packable) continue;
      if (!tensor.optional && tensor.elements() > 0)
        refuse_null(problem, tensor.name, buffers.operand[tensor.at]);
    }
  }
  of.check_buffers(problem, buffers);
  if (!of.is_empty(problem)) refuse_aliases(problem, buffers);
  return buffers;
}

const Buffers& checked_beside_packed(ProblemRef problem, const MemorySpace& packed_in,
                                     const Buffers& buffers) {
  const Tensor packed = packable_operand(problem);
  if (buffers.operand[packed.at]) {
    fail(Errc::invalid_argument, "{}: '{}' is packed already, so it is not read; give null", print(problem),
         packed.name);
  }
  if (buffers.space != packed_in) {
    fail(Errc::invalid_argument, "{}: the operands are in memory {}, the packed '{}' is in {}; pack it there",
         print(problem), print(buffers.space), packed.name, print(packed_in));
  }
  return checked(problem, buffers, true);
}

}  // namespace kscout
