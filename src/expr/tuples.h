#pragma once
/// \file
/// A program over rows that stay, asked again and again with a few values that change: each step is computed
/// once per distinct tuple of the row values that it depends on, and steps that no change reaches not at all.
///
///     // inputs 0 and 1 are columns of 1,000 rows, input 2 changes with each question
///     const expr::TupleProgram fast(program, columns, 1000, changing, wanted);
///     expr::TupleProgram::Scratch scratch(fast);                            // one per thread
///     fast.evaluate(values_of_input_2, scratch);
///     const double x = fast.values(formula, scratch)[fast.partition(formula).class_of[row]];
///
/// Values have the bits of Program::evaluate. Evaluation allocates nothing.
#include <cstdint>
#include <span>
#include <vector>

#include "core/indexing.h"
#include "expr/column_kernels.h"
#include "expr/expr.h"

namespace kscout::expr {

/// Which rows agree.
struct Partition {
  std::uint32_t classes = 0;
  std::vector<std::uint32_t> class_of;  ///< by row; classes are numbered in the order of their first rows
  std::vector<std::uint32_t> example;   ///< by class: its first row
};

class TupleProgram {
 public:
  static constexpr std::uint32_t one_value = UINT32_MAX;

  /// `columns` as Program::evaluate takes them (stride 0: one value for all rows). changing[i]: input i gets
  /// its value, the same for all rows, with each call. wanted[f]: formula f is asked for. Nothing is kept of
  /// the arguments.
  TupleProgram(const Program& program, std::span<const Column> columns, std::size_t rows,
               std::span<const std::uint8_t> changing, std::span<const std::uint8_t> wanted);

  class Scratch {
   public:
    explicit Scratch(const TupleProgram& program);

   private:
    friend class TupleProgram;
    struct alignas(64) Line {
      double values[kColumnLanes];
    };
    std::vector<Line> lines_;
  };

  std::span<const Partition> partitions() const noexcept { return partitions_; }
  /// Of a wanted formula: which partition its values belong to; one_value when all rows agree.
  std::uint32_t partition_of(std::size_t formula) const noexcept { return outputs_[formula].partition; }
  /// True when no call changes the formula's values.
  bool fixed(std::size_t formula) const noexcept { return outputs_[formula].fixed; }
  /// Values of a wanted formula, one per class, as the last evaluate() left them; fixed ones always.
  const double* values(std::size_t formula, const Scratch& scratch) const noexcept {
    return std::data(scratch.lines_.data()->values) + outputs_[formula].at;
  }
  /// The coarsest partition that refines those of all wanted formulas.
  Partition common_partition() const;

  /// Gives back what tells rows apart, for who needs values only: partitions() is empty afterwards.
  void forget_rows() noexcept { partitions_ = {}; }

  /// Inputs that a call gives, in the order of Program::inputs().
  std::size_t changing() const noexcept { return changing_.size(); }
  void evaluate(std::span<const double> changing, Scratch& scratch) const noexcept;

  /// What a call computes: values, and values copied to finer partitions.
  struct Cost {
    std::size_t steps = 0, values = 0, copied = 0;
  };
  Cost cost() const noexcept;

 private:
  friend class TupleCompiler;
  /// One column operation; or, with `spread`, values copied from the classes of one partition to a finer one.
  struct Step {
    ColumnOperation operation = nullptr;
    std::uint32_t a = 0, b = 0, c = 0, out = 0;  ///< positions in the scratch
    std::uint32_t values = 0;
    std::uint32_t spread = one_value;  ///< where spread_ begins to say from which class
  };
  struct Output {
    std::uint32_t at = 0, partition = one_value;
    bool fixed = false;
  };

  std::vector<Partition> partitions_;
  std::vector<Step> steps_;
  Spread spread_;  ///< for each two partitions, by class of the finer: the coarser's class; in order of use
  std::vector<std::uint32_t> changing_;  ///< position of each in the scratch
  std::vector<Output> outputs_;
  std::vector<double> start_;  ///< what a scratch holds at first: constants and fixed values
  std::size_t size_ = 0;       ///< doubles of a scratch
  std::size_t rows_ = 0;
};

}  // namespace kscout::expr
