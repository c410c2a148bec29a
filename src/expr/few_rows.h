#pragma once
/// \file
/// Evaluates a program for a few rows per call, out of a fixed table of rows, for one problem after another.
///
///     // `fixed` has 1,000 rows of all inputs except those of the problem
///     expr::FewRows fast(program, fixed.columns(), 1000, wanted);
///     expr::FewRows::Scratch scratch;                            // one per thread, for any programs
///     if (!fast.set_problem(problem, scratch)) ...               // the formulas cannot describe it
///     fast.set_rows(picked, scratch);                            // positions of at most 32 rows
///     const double x = fast.values(formula, scratch)[i];         // of row picked[i], where it varies by_row
///
/// The constructor computes the values that depend only on rows, set_problem() those that depend only on the
/// problem. Results have the bits of Program::evaluate. Calls take no lock.
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

class FewRows {
 public:
  static constexpr std::size_t block = 32;  ///< maximum number of rows per set_rows()

  /// `columns` as for Program::evaluate (stride 0: one value for all rows); those of the problem and its
  /// signature are not read. wanted[f]: formula f is needed. The constructor keeps no reference to the
  /// arguments. Throws invalid_argument when their sizes differ.
  FewRows(const Program& program, std::span<const Column> columns, std::size_t rows,
          std::span<const std::uint8_t> wanted);

  /// From now on, set_problem() refuses problems for which a formula of `conditions` is 0, except formulas
  /// that read more than the problem. `columns` has one row.
  void require(const Program& conditions, std::span<const Column> columns);

  /// Memory of calls; set_problem() makes it large enough for its program.
  class Scratch {
    friend class FewRows;
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

  /// Sets the problem. False when the formulas read problems of another operation, or when a condition does
  /// not hold. Allocates only when `scratch` is smaller than this program needs.
  bool set_problem(ProblemRef problem, Scratch& scratch) const;
  /// Sets the inputs of the problem and its signature, in the order of Program::inputs().
  void set_call(std::span<const double> changing, Scratch& scratch) const;
  /// Sets the rows: at most `block` of them, each below the number of rows.
  void set_rows(std::span<const std::uint32_t> rows, Scratch& scratch) const noexcept;

  /// Writes a formula for any number of rows, after set_problem(). Not after forget_fixed().
  /// out.size() == rows.size().
  void evaluate(std::size_t formula, std::span<const std::uint32_t> rows, std::span<double> out,
                Scratch& scratch) const noexcept;

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

  static constexpr std::size_t kFields = kMaxProblemFields;
  const void* record_ = nullptr;  ///< the kind of problem that the formulas read; null = any
  /// Field of each changing input: of the problem, or kFields + field of the signature.
  std::vector<std::uint32_t> fields_;
  std::vector<FewRows> conditions_;
};

}  // namespace expr
}  // namespace kscout
