#pragma once
/// \file
/// Evaluates a program for a few rows per call, out of a fixed table of rows, with a few inputs that change
/// per call.
///
///     // inputs 0 and 1 are columns of 1,000 rows, input 2 changes with each call
///     const expr::FewRowsProgram fast(program, columns, 1000, changing, wanted);
///     expr::FewRowsProgram::Scratch scratch;                          // one per thread, for any programs
///     fast.set_call(values_of_input_2, scratch);
///     fast.set_rows(picked, scratch);                                // positions of at most 32 rows
///     const double x = fast.values(formula, scratch)[i];             // of row picked[i], where it varies by_row
///
/// The constructor computes the values that depend only on rows, set_call() those that depend only on the
/// call. Results have the bits of Program::evaluate.
#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include <kscout/any_problem.h>

#include "expr/column_kernels.h"
#include "expr/expr.h"

namespace kscout {

/// How a value varies between rows and calls.
enum class Varies : std::uint8_t {
  never,    ///< each row keeps its value in all calls
  by_call,  ///< the rows of a call share one value
  by_row,   ///< each row of each call has its own value
};

namespace expr {

class FewRowsProgram {
 public:
  static constexpr std::size_t block = 32;  ///< maximum number of rows per set_rows()

  /// `columns` as for Program::evaluate (stride 0: one value for all rows). changing[i]: each call sets input
  /// i, to one value for all rows. wanted[f]: formula f is needed. The constructor keeps no reference to the
  /// arguments. Throws invalid_argument when their sizes differ.
  FewRowsProgram(const Program& program, std::span<const Column> columns, std::size_t rows,
                 std::span<const std::uint8_t> changing, std::span<const std::uint8_t> wanted);

  /// Memory of calls; set_call() makes it large enough for its program.
  class Scratch {
    friend class FewRowsProgram;
    friend class FewRowsCompiler;
    struct alignas(64) Line {
      double values[kColumnLanes];
    };
    std::vector<Line> lines_;
  };

  /// How a wanted formula varies.
  Varies varies(std::size_t formula) const noexcept { return outputs_[formula].varies; }
  /// The values by row of a wanted formula that never varies.
  std::span<const double> fixed(std::size_t formula) const noexcept { return outputs_[formula].fixed; }
  /// The value of a wanted formula that varies: one value, or one per row of the last set_rows(). Up to
  /// `block` values may be read; those after the last row are meaningless.
  const double* values(std::size_t formula, const Scratch& scratch) const noexcept {
    return std::data(scratch.lines_.data()->values) + outputs_[formula].at;
  }
  /// Frees the values by row: fixed() is empty afterwards.
  void forget_fixed() noexcept;

  /// Sets the changing inputs, in the order of Program::inputs(). Allocates only when `scratch` is smaller
  /// than this program needs.
  void set_call(std::span<const double> changing, Scratch& scratch) const;
  /// Sets the rows: at most `block` of them, each below the number of rows.
  void set_rows(std::span<const std::uint32_t> rows, Scratch& scratch) const noexcept;

  /// Number of operations per call, and per set_rows().
  std::size_t call_steps() const noexcept { return call_steps_.size(); }
  std::size_t row_steps() const noexcept { return row_steps_.size(); }

 private:
  friend class FewRowsCompiler;
  /// Positions in the scratch.
  struct CallStep {
    Code code;
    std::uint32_t a, b, c, out;
  };
  struct RowStep {
    ColumnOperation operation;
    std::uint32_t a, b, c, out;
  };
  struct Output {
    Varies varies = Varies::never;
    std::uint32_t at = 0;
    std::vector<double> fixed;
  };

  std::vector<double> constants_;        ///< initial content of a scratch
  std::vector<std::uint32_t> changing_;  ///< position in the scratch of each changing input
  std::vector<CallStep> call_steps_;
  std::vector<RowStep> row_steps_;
  std::vector<double> table_;  ///< row after row: the values that steps read
  /// By column of the table: position in the scratch of its `block` values.
  std::vector<std::uint32_t> table_at_;
  std::vector<Output> outputs_;
  std::size_t size_ = kColumnLanes;  ///< size of a scratch, in doubles
};

// ---- Evaluates a program whose changing inputs are those of the problem.
//
//     const expr::ProblemRows rows(program, fixed, 1000, wanted);      // fixed: inputs without the problem
//     if (rows.set_problem(problem, scratch)) rows.program().set_rows(picked, scratch);

class ProblemRows {
 public:
  /// `fixed` contains `rows` rows of all inputs except the problem and its signature. The constructor keeps
  /// no reference to the arguments.
  ProblemRows(const Program& program, const Inputs& fixed, std::size_t rows,
              std::span<const std::uint8_t> wanted);

  const FewRowsProgram& program() const noexcept { return program_; }
  void forget_fixed() noexcept { program_.forget_fixed(); }
  /// False when the formulas read problems of another operation.
  bool set_problem(ProblemRef problem, FewRowsProgram::Scratch& scratch) const;

 private:
  static constexpr std::size_t kFields = kMaxProblemFields;
  static constexpr std::size_t kInputs = kFields + field_count<Signature>;
  static std::vector<std::uint8_t> changing(const Program& program);

  FewRowsProgram program_;
  const void* record_ = nullptr;  ///< the kind of problem that the formulas read; null = any
  /// Field of each changing input: of the problem, or kFields + field of the signature.
  std::vector<std::uint32_t> fields_;
};

/// The values of a record's fields, in order.
template <Record T>
std::array<double, field_count<T>> numbers_of(const T& record) {
  std::array<double, field_count<T>> numbers;
  std::size_t next = 0;
  for_each_field<T>([&](const auto& field) { numbers[next++] = to_number(record.*field.member); });
  return numbers;
}

}  // namespace expr
}  // namespace kscout
