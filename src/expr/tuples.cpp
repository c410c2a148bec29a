#include "expr/tuples.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>

#include "core/fail.h"
#include "core/hash.h"
#include "core/indexing.h"
#include "expr/operations.h"

namespace kscout::expr {

namespace {

constexpr std::uint32_t kOne = TupleProgram::one_value;

std::uint32_t rounded(std::size_t values) {
  return static_cast<std::uint32_t>((values + kColumnLanes - 1) / kColumnLanes * kColumnLanes);
}

/// Rows agree when their keys do.
template <class KeyOf>
Partition part_by(std::size_t rows, const KeyOf& key_of) {
  Partition to;
  to.class_of.reserve(rows);
  DistinctNumbers numbers(rows);
  std::vector<std::uint64_t> keys;  // by class
  for (std::uint32_t row = 0; row < rows; ++row) {
    const std::uint64_t key = key_of(row);
    const std::uint32_t number =
        numbers.of(words_hash(std::array{key}), [&](std::uint32_t known) { return keys[known] == key; });
    if (number == keys.size()) {
      keys.push_back(key);
      to.example.push_back(row);
    }
    to.class_of.push_back(number);
  }
  to.classes = static_cast<std::uint32_t>(keys.size());
  return to;
}

/// Rows agree when both partitions say so.
Partition refine(const Partition& one, const Partition& other) {
  return part_by(one.class_of.size(), [&](std::uint32_t row) {
    return std::uint64_t{one.class_of[row]} << 32 | other.class_of[row];
  });
}

/// Memory handed out and taken back, so that a call touches little of it.
class Arena {
 public:
  std::uint32_t take(std::uint32_t size) {
    const auto fit = std::ranges::find_if(free_, [&](const Gap& gap) { return gap.size >= size; });
    if (fit == free_.end()) {
      const std::uint32_t at = end_;
      end_ += size;
      return at;
    }
    const std::uint32_t at = fit->at;
    fit->at += size;
    fit->size -= size;
    if (fit->size == 0) free_.erase(fit);
    return at;
  }
  void give_back(std::uint32_t at, std::uint32_t size) {
    auto next = std::ranges::find_if(free_, [&](const Gap& gap) { return gap.at > at; });
    next = free_.insert(next, {at, size});
    if (next + 1 != free_.end() && at + size == (next + 1)->at) {
      next->size += (next + 1)->size;
      free_.erase(next + 1);
    }
    if (next != free_.begin() && (next - 1)->at + (next - 1)->size == next->at) {
      (next - 1)->size += next->size;
      free_.erase(next);
    }
  }
  std::uint32_t end() const { return end_; }

 private:
  struct Gap {
    std::uint32_t at, size;
  };
  std::vector<Gap> free_;  // by position
  std::uint32_t end_ = 0;
};

}  // namespace

/// Turns operations into steps. Values live in one row of doubles: first what never changes, then what calls
/// write.
class TupleCompiler {
 public:
  TupleCompiler(const Program& program, std::span<const Column> columns, std::size_t rows,
                std::span<const std::uint8_t> changing, std::span<const std::uint8_t> wanted,
                TupleProgram& to)
      : program_(program), columns_(columns), rows_(rows), changing_(changing), wanted_(wanted), to_(to) {}

  void run() {
    simplify();
    find_needed();
    find_partitions();
    find_last_uses();
    place_fixed();
    compile_steps();
    set_outputs();
    to_.size_ = first_call_value_ + arena_.end();
    to_.rows_ = rows_;
    to_.spread_ = Spread(spread_);
  }

 private:
  struct Value {
    bool needed = false;
    bool fixed = false;  ///< no call changes it
    std::uint32_t partition = kOne;
    std::uint32_t at = kOne;     ///< position, once it has one
    std::uint32_t last_use = 0;  ///< operation after which its place is free
    bool output = false;
  };
  const Operation& operation(std::size_t i) const { return operations_[i]; }
  std::size_t operations() const { return operations_.size(); }
  std::uint32_t output(std::size_t formula) const { return stands_for_[program_.outputs()[formula]]; }
  static bool has_operands(const Operation& op) {
    return op.code != Code::constant && op.code != Code::input;
  }

  // ---- what these rows settle

  /// Many formulas serve all kinds of devices and configs; these rows need only a part of them. Operations
  /// whose operands are known and the same for all rows become constants, and those that hand on an operand
  /// give way to it. Bits stay: only what IEEE 754 makes exact for every value is left out.
  void simplify() {
    operations_.assign(program_.operations().begin(), program_.operations().end());
    stands_for_.resize(operations());
    for (std::uint32_t i = 0; i < operations(); ++i) {
      Operation& op = operations_[i];
      stands_for_[i] = i;
      if (op.code == Code::input) {
        if (changing_[op.a] == 0 && agrees(columns_[op.a])) set_constant(op, columns_[op.a].data[0]);
      } else if (op.code != Code::constant) {
        for (std::uint32_t* const of : {&op.a, &op.b, &op.c}) *of = stands_for_[*of];
        simplify_operation(i);
      }
    }
  }

  /// All rows have the bits of the first.
  bool agrees(const Column& column) const {
    const auto bits = [&](std::size_t row) {
      return std::bit_cast<std::uint64_t>(column.data[row * column.stride]);
    };
    std::size_t row = 1;
    while (row < rows_ && bits(row) == bits(0)) ++row;
    return row >= rows_;
  }

  static void set_constant(Operation& op, double value) {
    op.code = Code::constant;
    op.a = op.b = op.c = 0;
    op.value = value;
  }

  void simplify_operation(std::uint32_t i) {
    Operation& op = operations_[i];
    const auto constant = [&](std::uint32_t of) { return operations_[of].code == Code::constant; };
    const auto is = [&](std::uint32_t of, bool truth) {
      return constant(of) && formula::is_true(operations_[of].value) == truth;
    };
    const auto is_one = [&](std::uint32_t of) { return constant(of) && operations_[of].value == 1; };
    if (constant(op.a) && constant(op.b) && constant(op.c)) {
      set_constant(
          op, apply_code(op.code, operations_[op.a].value, operations_[op.b].value, operations_[op.c].value));
    } else if (op.code == Code::choose && constant(op.a)) {
      stands_for_[i] = is(op.a, true) ? op.b : op.c;
    } else if (op.code == Code::logical_and && (is(op.a, false) || is(op.b, false))) {
      set_constant(op, 0);
    } else if (op.code == Code::logical_or && (is(op.a, true) || is(op.b, true))) {
      set_constant(op, 1);
    } else if ((op.code == Code::multiply || op.code == Code::divide) && is_one(op.b)) {
      stands_for_[i] = op.a;
    } else if (op.code == Code::multiply && is_one(op.a)) {
      stands_for_[i] = op.b;
    }
  }

  void find_needed() {
    values_.resize(operations());
    for (std::size_t f = 0; f < program_.size(); ++f) {
      if (wanted_[f] != 0) values_[output(f)].needed = values_[output(f)].output = true;
    }
    for (std::size_t i = operations(); i-- > 0;) {
      if (!values_[i].needed || !has_operands(operation(i))) continue;
      for (const auto of : {operation(i).a, operation(i).b, operation(i).c}) values_[of].needed = true;
    }
  }

  /// Which rows agree in an operation: those that agree in every operand, and so in every row input.
  void find_partitions() {
    for (std::uint32_t i = 0; i < operations(); ++i) {
      if (!values_[i].needed) continue;
      const Operation& op = operation(i);
      Value& value = values_[i];
      if (has_operands(op)) {
        value.fixed = values_[op.a].fixed && values_[op.b].fixed && values_[op.c].fixed;
        value.partition =
            joined(joined(values_[op.a].partition, values_[op.b].partition), values_[op.c].partition);
      } else {
        value.fixed = op.code == Code::constant || changing_[op.a] == 0;
        if (value.fixed && op.code == Code::input) value.partition = input_partition(op.a);
      }
    }
  }

  /// The partition of a row input; one_value when all rows agree.
  std::uint32_t input_partition(std::uint32_t input) {
    const auto known = input_partitions_.find(input);
    if (known != input_partitions_.end()) return known->second;
    std::uint32_t to = kOne;
    if (columns_[input].stride != 0) {
      Partition partition = part_by(
          rows_, [&](std::uint32_t row) { return std::bit_cast<std::uint64_t>(columns_[input].data[row]); });
      if (partition.classes > 1) to = add_partition(std::move(partition));
    }
    input_partitions_[input] = to;
    return to;
  }

  /// The coarsest partition that refines both.
  std::uint32_t joined(std::uint32_t one, std::uint32_t other) {
    if (one == other || other == kOne || classes(one) == rows_) return one;
    if (one == kOne || classes(other) == rows_) return other;
    const auto [found, added] = joins_.try_emplace(std::minmax(one, other), kOne);
    if (added) found->second = add_partition(refine(to_.partitions_[one], to_.partitions_[other]));
    return found->second;
  }

  /// Equal partitions are one: classes are numbered by first rows, so equal ones look alike.
  std::uint32_t add_partition(Partition partition) {
    const auto [found, added] =
        partition_ids_.try_emplace(partition.class_of, static_cast<std::uint32_t>(to_.partitions_.size()));
    if (added) to_.partitions_.push_back(std::move(partition));
    return found->second;
  }

  std::uint32_t classes(std::uint32_t partition) const {
    return partition == kOne ? 1 : to_.partitions_[partition].classes;
  }
  std::uint32_t room(std::uint32_t partition) const { return rounded(classes(partition)); }

  void find_last_uses() {
    for (std::uint32_t i = 0; i < operations(); ++i) {
      if (!values_[i].needed || !has_operands(operation(i))) continue;
      for (const auto of : {operation(i).a, operation(i).b, operation(i).c}) values_[of].last_use = i;
    }
  }

  // ---- what never changes

  void place_fixed() {
    for (std::uint32_t i = 0; i < operations(); ++i) {
      Value& value = values_[i];
      if (!value.needed || !value.fixed) continue;
      value.at = static_cast<std::uint32_t>(to_.start_.size());
      const std::uint32_t count = classes(value.partition);
      for (std::uint32_t c = 0; c < count; ++c) to_.start_.push_back(fixed_value(i, c));
      to_.start_.resize(value.at + room(value.partition), to_.start_.back());
    }
    // Values copied to finer partitions are fixed, too: find them all before the calls' part begins.
    for (std::uint32_t i = 0; i < operations(); ++i) {
      const Value& value = values_[i];
      if (!value.needed || value.fixed) continue;
      const Operation& op = operation(i);
      if (!has_operands(op)) continue;
      for (const auto of : {op.a, op.b, op.c}) {
        if (values_[of].fixed) copy_fixed(of, value.partition);
      }
    }
    first_call_value_ = static_cast<std::uint32_t>(to_.start_.size());
  }

  double fixed_value(std::uint32_t i, std::uint32_t row_class) const {
    const Operation& op = operation(i);
    const std::uint32_t partition = values_[i].partition;
    const std::size_t row = partition == kOne ? 0 : to_.partitions_[partition].example[row_class];
    if (op.code == Code::constant) return op.value;
    if (op.code == Code::input) return columns_[op.a].data[row * columns_[op.a].stride];
    const auto operand = [&](std::uint32_t of) {
      const std::uint32_t by = values_[of].partition;
      return to_.start_[values_[of].at + (by == kOne ? 0 : to_.partitions_[by].class_of[row])];
    };
    return apply_code(op.code, operand(op.a), operand(op.b), operand(op.c));
  }

  void copy_fixed(std::uint32_t of, std::uint32_t partition) {
    if (values_[of].partition == kOne || values_[of].partition == partition) return;
    const auto [found, added] = copies_.try_emplace({of, partition}, Copy{});
    if (!added) return;
    found->second = {static_cast<std::uint32_t>(to_.start_.size()), true};
    for (const std::uint32_t from : spread(values_[of].partition, partition)) {
      to_.start_.push_back(to_.start_[values_[of].at + from]);
    }
  }

  /// By class of `finer`, padded: the class of `coarser` that holds it.
  std::vector<std::uint32_t> spread(std::uint32_t coarser, std::uint32_t finer) const {
    std::vector<std::uint32_t> from;
    for (const std::uint32_t row : to_.partitions_[finer].example) {
      from.push_back(to_.partitions_[coarser].class_of[row]);
    }
    from.resize(room(finer), from.back());
    return from;
  }

  // ---- what calls compute

  void compile_steps() {
    place_changing();
    for (std::uint32_t i = 0; i < operations(); ++i) {
      if (values_[i].needed && !values_[i].fixed && has_operands(operation(i))) compile_operation(i);
    }
  }

  /// What a call gives is written before the first step, so it shares its place with no other value.
  void place_changing() {
    std::vector<std::uint32_t> at(program_.inputs().size(), kOne);
    for (std::uint32_t i = 0; i < operations(); ++i) {
      const Operation& op = operation(i);
      if (op.code == Code::input && values_[i].needed && changing_[op.a] != 0)
        at[op.a] = values_[i].at = take(1);
    }
    for (std::size_t input = 0; input < at.size(); ++input) {
      if (changing_[input] != 0) to_.changing_.push_back(at[input]);
    }
  }

  std::uint32_t take(std::uint32_t classes) { return first_call_value_ + arena_.take(rounded(classes)); }
  void give_back(std::uint32_t at, std::uint32_t classes) {
    arena_.give_back(at - first_call_value_, rounded(classes));
  }

  void compile_operation(std::uint32_t i) {
    const Operation& op = operation(i);
    const std::uint32_t partition = values_[i].partition;
    TupleProgram::Step step;
    step.values = classes(partition);
    std::size_t shape = 0;
    const auto operand = [&](std::uint32_t of, std::size_t bit) {
      if (values_[of].partition != kOne) shape |= bit;
      return operand_at(of, partition);
    };
    step.a = operand(op.a, 4);
    step.b = operand(op.b, 2);
    step.c = operand(op.c, 1);
    step.operation = best_column_operations()[static_cast<std::size_t>(op.code)][shape];
    values_[i].at = step.out = take(classes(partition));
    to_.steps_.push_back(step);
    release(i);
  }

  /// Where the operand's values stand with one per class of `partition`.
  std::uint32_t operand_at(std::uint32_t of, std::uint32_t partition) {
    const Value& value = values_[of];
    if (value.partition == kOne || value.partition == partition) return value.at;
    const auto [found, added] = copies_.try_emplace({of, partition}, Copy{});
    if (added) {
      TupleProgram::Step step;
      step.a = value.at;
      step.values = classes(partition);
      step.spread = spread_of(value.partition, partition);
      step.out = take(step.values);
      found->second = {step.out, false};
      to_.steps_.push_back(step);
    }
    return found->second.at;
  }

  /// Where the classes of `coarser` begin that hold those of `finer`.
  std::uint32_t spread_of(std::uint32_t coarser, std::uint32_t finer) {
    const auto [found, added] =
        spread_places_.try_emplace({coarser, finer}, static_cast<std::uint32_t>(spread_.size()));
    if (added) {
      const std::vector<std::uint32_t> from = spread(coarser, finer);
      spread_.insert(spread_.end(), from.begin(), from.begin() + classes(finer));
    }
    return found->second;
  }

  /// Gives back the places of operands whose last use was operation i.
  void release(std::uint32_t i) {
    const Operation& op = operation(i);
    std::vector<std::uint32_t> operands = {op.a, op.b, op.c};
    std::ranges::sort(operands);
    operands.erase(std::unique(operands.begin(), operands.end()), operands.end());
    for (const std::uint32_t of : operands) {
      const Value& value = values_[of];
      if (value.last_use != i) continue;
      for (auto copy = copies_.lower_bound({of, 0}); copy != copies_.end() && copy->first.first == of;) {
        if (copy->second.fixed) {
          ++copy;
          continue;
        }
        give_back(copy->second.at, classes(copy->first.second));
        copy = copies_.erase(copy);
      }
      if (!value.fixed && !value.output && operation(of).code != Code::input) {
        give_back(value.at, classes(value.partition));
      }
    }
  }

  void set_outputs() {
    for (std::size_t f = 0; f < program_.size(); ++f) {
      const Value& value = values_[output(f)];
      to_.outputs_.push_back(wanted_[f] == 0 ? TupleProgram::Output{}
                                             : TupleProgram::Output{value.at, value.partition, value.fixed});
    }
  }

  struct Copy {
    std::uint32_t at = 0;
    bool fixed = false;
  };

  const Program& program_;
  std::span<const Column> columns_;
  std::size_t rows_;
  std::span<const std::uint8_t> changing_, wanted_;
  TupleProgram& to_;
  std::vector<Operation> operations_;      ///< of the program, simplified
  std::vector<std::uint32_t> stands_for_;  ///< by operation: whose values are its own
  std::vector<Value> values_;              ///< by operation
  std::map<std::uint32_t, std::uint32_t> input_partitions_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> joins_, spread_places_;
  std::vector<std::uint32_t> spread_;  ///< as TupleProgram::spread_
  std::map<std::vector<std::uint32_t>, std::uint32_t> partition_ids_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Copy> copies_;  ///< by (operation, partition)
  Arena arena_;
  std::uint32_t first_call_value_ = 0;
};

TupleProgram::TupleProgram(const Program& program, std::span<const Column> columns, std::size_t rows,
                           std::span<const std::uint8_t> changing, std::span<const std::uint8_t> wanted) {
  const std::size_t inputs = program.inputs().size();
  if (columns.size() != inputs || changing.size() != inputs || wanted.size() != program.size() || rows == 0) {
    fail(Errc::invalid_argument,
         "tuples: {} columns and {} marks for {} inputs, {} marks for {} formulas, {} rows", columns.size(),
         changing.size(), inputs, wanted.size(), program.size(), rows);
  }
  TupleCompiler(program, columns, rows, changing, wanted, *this).run();
}

TupleProgram::Scratch::Scratch(const TupleProgram& program) : lines_(program.size_ / kColumnLanes + 1) {
  std::ranges::copy(program.start_, lines_.data()->values);
}

Partition TupleProgram::common_partition() const {
  Partition common{1, std::vector<std::uint32_t>(rows_, 0), {0}};
  std::vector<std::uint8_t> seen(partitions_.size());
  for (const Output& output : outputs_) {
    if (output.partition == one_value || seen[output.partition]++ != 0) continue;
    common = refine(common, partitions_[output.partition]);
  }
  return common;
}

void TupleProgram::evaluate(std::span<const double> changing, Scratch& scratch) const noexcept {
  double* const base = std::data(scratch.lines_.data()->values);
  for (std::size_t i = 0; i < changing_.size(); ++i) {
    if (changing_[i] != one_value) base[changing_[i]] = changing[i];
  }
  for (const Step& step : steps_) {
    if (step.spread == one_value) {
      step.operation(base + step.a, base + step.b, base + step.c, base + step.out, step.values);
    } else {
      spread_.copy(base + step.a, base + step.out, step.values, step.spread);
    }
  }
}

TupleProgram::Cost TupleProgram::cost() const noexcept {
  Cost cost;
  for (const Step& step : steps_) {
    ++cost.steps;
    (step.spread == one_value ? cost.values : cost.copied) += step.values;
  }
  return cost;
}

}  // namespace kscout::expr
