#include "op/grouped_gemm/grouped_gemm_reference.h"

#include <fmt/format.h>

#include "op/gemm/gemm_views.h"

namespace kscout {

GroupedGemmReference::GroupedGemmReference(const GroupedGemmProblem& problem, const GemmOperands& operands) {
  const auto bytes = [](DType dtype, std::int64_t elements) {
    return static_cast<std::size_t>(elements) * element_bytes(dtype);
  };
  const auto moved = [](const void* from, std::size_t by) {
    return static_cast<const std::byte*>(from) + by;
  };
  GemmProblem one = make_gemm(0, problem.n, problem.k, problem.dtype_a, problem.layout);
  one.dtype_b = problem.dtype_b;
  one.dtype_c = problem.dtype_c;
  one.dtype_acc = problem.dtype_acc;
  std::int64_t row = 0;
  for (std::size_t group = 0; const std::int64_t rows : problem.m.sizes()) {
    if (rows > 0 && problem.n > 0) {
      one.m = rows;
      const GemmData data{.device = operands.device(),
                          .a = moved(operands.a(), bytes(one.dtype_a, row * one.k)),
                          .b = moved(operands.b(), static_cast<std::size_t>(group) *
                                                       bytes(one.dtype_b, problem.n * problem.k)),
                          .alpha = operands.alpha()};
      groups_.push_back({group, bytes(one.dtype_c, row * one.n), GemmReference(one, data)});
    }
    row += rows;
    ++group;
  }
}

Verification GroupedGemmReference::check(const void* c) const {
  Verification worst;
  for (const Group& group : groups_) {
    Verification found = group.reference.check(static_cast<const std::byte*>(c) + group.c_at);
    if (found.error <= worst.error) continue;
    worst = std::move(found);
    if (!worst.where.empty()) worst.where = fmt::format("group {}: {}", group.number, worst.where);
  }
  return worst;
}

}  // namespace kscout
