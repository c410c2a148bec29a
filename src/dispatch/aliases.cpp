#include "dispatch/aliases.h"

#include <cmath>
#include <cstdint>
#include <string_view>

#include "core/fail.h"
#include "measure/matrix_view.h"

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

Extent extent_of(const void* memory, std::int64_t bytes) {
  return {address(memory), memory ? bytes : 0, bytes, bytes};
}

Extent extent_of(const void* memory, const MatrixView& view, std::int64_t items) {
  const double element = bytes_per_element(view.dtype);
  const auto bytes = [&](std::int64_t elements) {
    return static_cast<std::int64_t>(std::ceil(static_cast<double>(elements) * element));
  };
  if (!memory || view.rows == 0 || view.columns == 0 || items == 0) return {};
  const std::int64_t last = (items - 1) * view.batch_stride + (view.lines() - 1) * view.leading;
  return {address(memory), bytes(last + view.length()), bytes(view.length()), bytes(view.leading)};
}

bool share_elements(const Extent& a, const Extent& b) {
  if (a.bytes == 0 || b.bytes == 0) return false;
  if (a.begin + a.bytes <= b.begin || b.begin + b.bytes <= a.begin) return false;
  if (a.pitch != b.pitch) return true;
  // Both within the same lines.
  const std::int64_t apart = ((b.begin - a.begin) % a.pitch + a.pitch) % a.pitch;
  return apart < a.line || apart + b.line > a.pitch;
}

void refuse_shared(ProblemRef problem, const Extent& result, std::string_view name, const Extent& other,
                   std::string_view result_name = "c") {
  if (!share_elements(result, other)) return;
  fail(Errc::invalid_argument,
       "{0}: operands {2} and {1} share memory, and {1} is read while {2} is written; give {2} memory of its "
       "own",
       print(problem), name, result_name);
}

}  // namespace

void refuse_aliases(const GemmProblem& p, const GemmBuffers& buffers) {
  const Extent c = extent_of(buffers.c, view_c(p), p.batch);
  if (p.k > 0) {
    refuse_shared(p, c, "a", extent_of(buffers.a, view_a(p), p.batch));
    refuse_shared(p, c, "b", extent_of(buffers.b, view_b(p), p.batch));
  }
  const double bias_bytes = static_cast<double>(p.n) * bytes_per_element(p.dtype_c);
  if (has_bias(p.epilogue))
    refuse_shared(p, c, "bias", extent_of(buffers.bias, static_cast<std::int64_t>(std::ceil(bias_bytes))));
  refuse_shared(p, c, "scale_a", extent_of(buffers.scale_a, sizeof(float)));
  refuse_shared(p, c, "scale_b", extent_of(buffers.scale_b, sizeof(float)));
}

void refuse_aliases(const ConvProblem& p, const GemmBuffers& buffers) {
  const ConvElements sizes = operand_elements(p);
  const auto elements = by_operand(p.op, sizes.in, sizes.wei, sizes.out);
  const Signature types = signature_of(p);
  const auto extent = [](const void* memory, std::int64_t count, DType dtype) {
    return extent_of(
        memory, static_cast<std::int64_t>(std::ceil(static_cast<double>(count) * bytes_per_element(dtype))));
  };
  const auto names = by_operand<std::string_view>(p.op, "in", "wei", "out");
  const Extent c = extent(buffers.c, elements.c, types.dtype_c);
  refuse_shared(p, c, names.a, extent(buffers.a, elements.a, types.dtype_a), names.c);
  refuse_shared(p, c, names.b, extent(buffers.b, elements.b, types.dtype_b), names.c);
}

}  // namespace kscout
