#pragma once
/// \file
/// Operands of a GEMM for measuring and verifying: made once per problem, used by every config.
///
///     GemmOperands operands;
///     operands.make(problem, seed);
///     operands.reset_c();                       // C holds NaNs, or its initial values when accumulating
///     launch->run(operands.buffers(), workspace);
///     if (auto text = operands.damage(); !text.empty()) ...   // a write outside of C
#include <cstdint>
#include <string>
#include <vector>

#include <kscout/backend.h>
#include <kscout/problem.h>

#include "measure/guarded_buffer.h"

namespace kscout {

/// Where element (row, column) of one batch item lies.
struct MatrixView {
  DType dtype;
  std::int64_t rows, columns, leading, batch_stride;
  bool row_major;

  std::int64_t lines() const noexcept { return row_major ? rows : columns; }
  std::int64_t length() const noexcept { return row_major ? columns : rows; }
  std::int64_t at(std::int64_t item, std::int64_t row, std::int64_t column) const noexcept {
    return item * batch_stride + (row_major ? row * leading + column : column * leading + row);
  }
};

MatrixView view_a(const GemmProblem& problem) noexcept;
MatrixView view_b(const GemmProblem& problem) noexcept;
MatrixView view_c(const GemmProblem& problem) noexcept;

class GemmOperands {
 public:
  /// Fills A and B with values uniform in [-1, 1] (whole numbers -8 to 8 for integer types), a function of
  /// the seed only, and makes them read-only; what lies between lines (leading dimension > packed) is NaN.
  /// Throws unsupported for element types that cannot be made and for epilogues, and when the operands
  /// would take more than 3/4 of the memory that is free. About 0.5 ns per element, more where memory is
  /// touched for the first time.
  void make(const GemmProblem& problem, std::uint64_t seed);
  /// Before a run that is verified: every element of C becomes NaN, or its initial value when the problem
  /// accumulates.
  void reset_c();

  /// After damage(): paints the guards again, so that the next config starts clean. reset_c() does the rest.
  void repair();

  GemmBuffers buffers() noexcept;
  const void* a() const noexcept { return a_.data(); }
  const void* b() const noexcept { return b_.data(); }
  const void* c() const noexcept { return c_.data(); }
  /// C before the run; empty unless the problem accumulates.
  const std::vector<std::byte>& initial_c() const noexcept { return initial_c_; }
  double alpha() const noexcept { return 1; }
  double beta() const noexcept { return initial_c_.empty() ? 0.0 : 0.5; }

  /// What was written that is no element of C, in words: guard zones of C and the gaps between its lines.
  std::string damage() const;
  /// A, B and C are in no cache afterwards.
  void evict_from_caches() const noexcept;

 private:
  GemmProblem problem_;
  GuardedBuffer a_{0}, b_{1}, c_{2};
  std::vector<std::byte> initial_c_;
};

}  // namespace kscout
