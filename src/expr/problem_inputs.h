#pragma once
/// \file
/// Inputs of a program of which only the problem changes: the rest is gathered once and shared by threads.
///
///     expr::Inputs fixed(program);
///     fixed.set_rows("t", traits);
///     fixed.set("d", device);
///     const expr::ProblemInputs inputs(program, std::move(fixed));   // ready for many problems
///
///     thread_local expr::ProblemInputs::Memory memory;
///     program.evaluate(inputs.columns(problem, memory), rows, out, scratch);
#include <array>
#include <span>
#include <vector>

#include <kscout/any_problem.h>

#include "expr/expr.h"

namespace kscout::expr {

class ProblemInputs {
 public:
  /// What one thread writes; grows on first use, then is reused for any program.
  struct Memory {
    std::vector<double> values;
    std::vector<Column> columns;
  };

  /// `fixed` holds everything but the problem (any prefix) and its signature. The program must outlive it.
  ProblemInputs(const Program& program, Inputs fixed);

  /// As given: what stays the same for every problem.
  const Inputs& fixed() const noexcept { return fixed_; }

  /// The columns for a problem of the kind that the program reads (unsupported otherwise): valid until
  /// `memory` is used again. Allocates only when `memory` is smaller than this program needs.
  std::span<const Column> columns(ProblemRef problem, Memory& memory) const;

 private:
  /// An input that a field of the problem or of its signature fills.
  struct Filled {
    std::uint32_t input, field;
  };

  Inputs fixed_;
  const void* record_ = nullptr;  ///< the kind of problem that is read; null = any
  std::vector<Filled> from_problem_, from_signature_;
};

}  // namespace kscout::expr
