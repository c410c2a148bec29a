#include "expr/few_rows.h"

#include <algorithm>
#include <array>
#include <bit>

#include "core/fail.h"
#include "expr/operations.h"

namespace kscout::expr {

namespace {

std::size_t whole_lanes(std::size_t values) {
  return (values + kColumnLanes - 1) / kColumnLanes * kColumnLanes;
}

/// Whether each call sets the input.
bool changes(const Input& input) noexcept {
  return input.depends.on(Source::problem) || input.depends.on(Source::signature);
}

}  // namespace

/// Sorts operations by how their values vary and assigns each a place.
class FewRowsCompiler {
 public:
  FewRowsCompiler(const Program& program, std::span<const Column> columns, std::size_t rows,
                  std::span<const std::uint8_t> wanted, FewRows& to)
      : program_(program), columns_(columns), rows_(rows), wanted_(wanted), to_(to) {}

  void run() {
    settle();
    find_uses();
    compute_fixed();
    place_call();
    place_rows();
    set_outputs();
  }

 private:
  static constexpr std::uint32_t kAlways = UINT32_MAX;
  struct Value {
    Varies varies = Varies::never;  ///< constants included
    bool needed = false;
    std::uint32_t last_use = 0;  ///< operation after which the place is free
    std::uint32_t at = 0;        ///< place in the scratch
    std::vector<double> fixed;   ///< by row, unless the value is constant
  };
  std::size_t operations() const { return operations_.size(); }
  static bool has_operands(const Operation& op) {
    return op.code != Code::constant && op.code != Code::input;
  }

  // ---- Folding with the values of the rows.

  /// Formulas cover all kinds of devices and configs, but these rows need only a part of them. Operations
  /// whose operands are known and equal for all rows become constants; operations that return one of their
  /// operands are replaced by it. Only simplifications that IEEE 754 makes exact for every value are applied.
  void settle() {
    operations_.assign(program_.operations().begin(), program_.operations().end());
    stands_for_.resize(operations());
    values_.resize(operations());
    for (std::uint32_t i = 0; i < operations(); ++i) {
      Operation& op = operations_[i];
      stands_for_[i] = i;
      if (op.code == Code::input) {
        if (changes(program_.inputs()[op.a])) {
          values_[i].varies = Varies::by_call;
        } else if (agrees(columns_[op.a])) {
          op = {.code = Code::constant, .value = columns_[op.a].data[0]};
        }
      } else if (op.code != Code::constant) {
        for (std::uint32_t* const of : {&op.a, &op.b, &op.c}) *of = stands_for_[*of];
        settle_operation(i);
      }
    }
  }

  /// Whether all rows have the bits of the first row.
  bool agrees(const Column& column) const {
    const auto bits = [&](std::size_t row) {
      return std::bit_cast<std::uint64_t>(column.data[row * column.stride]);
    };
    std::size_t row = 1;
    while (row < rows_ && bits(row) == bits(0)) ++row;
    return row >= rows_;
  }

  void settle_operation(std::uint32_t i) {
    Operation& op = operations_[i];
    const auto is = [&](std::uint32_t of, bool truth) {
      return constant(of) && formula::is_true(operations_[of].value) == truth;
    };
    const auto is_one = [&](std::uint32_t of) { return constant(of) && operations_[of].value == 1; };
    const auto become = [&](double value) { op = {.code = Code::constant, .value = value}; };
    if (constant(op.a) && constant(op.b) && constant(op.c)) {
      become(apply_code(op.code, operations_[op.a].value, operations_[op.b].value, operations_[op.c].value));
    } else if (op.code == Code::choose && constant(op.a)) {
      stands_for_[i] = is(op.a, true) ? op.b : op.c;
    } else if (op.code == Code::logical_and && (is(op.a, false) || is(op.b, false))) {
      become(0);
    } else if (op.code == Code::logical_or && (is(op.a, true) || is(op.b, true))) {
      become(1);
    } else if ((op.code == Code::multiply || op.code == Code::divide) && is_one(op.b)) {
      stands_for_[i] = op.a;
    } else if (op.code == Code::multiply && is_one(op.a)) {
      stands_for_[i] = op.b;
    } else {
      values_[i].varies = joined(op);
    }
  }

  /// A constant combines with any variation.
  Varies joined(const Operation& op) const {
    bool calls = false, rows = false;
    for (const std::uint32_t of : {op.a, op.b, op.c}) {
      calls = calls || values_[of].varies != Varies::never;
      rows = rows || in_rows(of);
    }
    return !calls ? Varies::never : rows ? Varies::by_row : Varies::by_call;
  }

  std::uint32_t output(std::size_t formula) const { return stands_for_[program_.outputs()[formula]]; }

  void find_uses() {
    for (std::size_t f = 0; f < program_.size(); ++f) {
      if (wanted_[f] == 0) continue;
      values_[output(f)].needed = true;
      values_[output(f)].last_use = kAlways;
    }
    for (std::size_t i = operations(); i-- > 0;) {
      const Operation& op = operations_[i];
      if (!values_[i].needed || !has_operands(op)) continue;
      for (const std::uint32_t of : {op.a, op.b, op.c}) {
        values_[of].needed = true;
        values_[of].last_use = std::max(values_[of].last_use, static_cast<std::uint32_t>(i));
      }
    }
  }

  bool constant(std::uint32_t i) const { return operations_[i].code == Code::constant; }

  // ---- Operations that vary by row only: computed for all rows at once.

  void compute_fixed() {
    const std::size_t room = whole_lanes(rows_);
    std::vector<FewRows::Scratch::Line> lines(4 * room / kColumnLanes);
    const auto part = [&](std::size_t number) {
      return std::data(lines[number * room / kColumnLanes].values);
    };
    for (std::uint32_t i = 0; i < operations(); ++i) {
      if (!values_[i].needed || values_[i].varies != Varies::never || constant(i)) continue;
      const Operation& op = operations_[i];
      std::vector<double>& to = values_[i].fixed;
      if (op.code == Code::input) {
        to.assign(columns_[op.a].data, columns_[op.a].data + rows_);
        continue;
      }
      std::size_t shape = 0, number = 0;
      for (const std::uint32_t of : {op.a, op.b, op.c}) {
        shape = 2 * shape + !constant(of);
        if (constant(of)) *part(number) = operations_[of].value;
        std::ranges::copy(values_[of].fixed, part(number));
        ++number;
      }
      best_column_operations()[static_cast<std::size_t>(op.code)][shape](part(0), part(1), part(2), part(3),
                                                                         rows_);
      to.assign(part(3), part(3) + rows_);
    }
  }

  // ---- Operations that vary by call only: one value each, stored after the constants.

  void place_call() {
    const auto take = [&](std::uint32_t i) { values_[i].at = size_++; };
    for (std::uint32_t i = 0; i < operations(); ++i) {
      if (!values_[i].needed || !constant(i)) continue;
      to_.constants_.push_back(operations_[i].value);
      take(i);
    }
    std::vector<std::uint32_t> number;  // number of each input among the changing ones
    std::uint32_t next = 0;
    for (const Input& input : program_.inputs()) number.push_back(changes(input) ? next++ : 0);
    to_.changing_.assign(next, size_++);
    for (std::uint32_t i = 0; i < operations(); ++i) {
      if (!values_[i].needed || values_[i].varies != Varies::by_call || constant(i)) continue;
      take(i);
      const Operation& op = operations_[i];
      if (op.code == Code::input) {
        to_.changing_[number[op.a]] = values_[i].at;
      } else {
        to_.call_steps_.push_back({op.code, at(op.a), at(op.b), at(op.c), values_[i].at});
      }
    }
    size_ = static_cast<std::uint32_t>(whole_lanes(size_));
  }
  std::uint32_t at(std::uint32_t i) const { return values_[i].at; }

  // ---- Operations that vary by row and call: `block` values each. A place is reused after the last use of
  // its value.

  void place_rows() {
    gather();
    for (std::uint32_t i = 0; i < operations(); ++i) {
      if (!values_[i].needed || values_[i].varies != Varies::by_row) continue;
      const Operation& op = operations_[i];
      std::size_t shape = 0;
      for (const std::uint32_t of : {op.a, op.b, op.c}) shape = 2 * shape + in_rows(of);
      values_[i].at = take_rows();
      to_.row_steps_.push_back({best_column_operations()[static_cast<std::size_t>(op.code)][shape], at(op.a),
                                at(op.b), at(op.c), at(i)});
      give_back(op, i);
    }
  }

  /// Whether the operand has one value per row.
  bool in_rows(std::uint32_t i) const { return !constant(i) && values_[i].varies != Varies::by_call; }

  /// Adds a table column for each value that steps read and that varies by row only.
  void gather() {
    std::vector<std::uint8_t> read(operations(), 0);
    for (std::uint32_t i = 0; i < operations(); ++i) {
      if (!values_[i].needed || values_[i].varies != Varies::by_row) continue;
      for (const std::uint32_t of : {operations_[i].a, operations_[i].b, operations_[i].c}) read[of] = 1;
    }
    std::vector<const std::vector<double>*> columns;
    for (std::uint32_t i = 0; i < operations(); ++i) {
      if (read[i] == 0 || constant(i) || values_[i].varies != Varies::never) continue;
      columns.push_back(&values_[i].fixed);
      to_.table_at_.push_back(values_[i].at = take_rows());
    }
    for (std::size_t row = 0; row < rows_; ++row) {
      for (const auto* const column : columns) to_.table_.push_back((*column)[row]);
    }
  }

  std::uint32_t take_rows() {
    if (free_.empty()) {
      size_ += FewRows::block;
      return size_ - static_cast<std::uint32_t>(FewRows::block);
    }
    const std::uint32_t place = free_.back();
    free_.pop_back();
    return place;
  }

  void give_back(const Operation& op, std::uint32_t i) {
    for (const std::uint32_t of : {op.a, op.b, op.c}) {
      if (!in_rows(of) || values_[of].last_use != i) continue;
      values_[of].last_use = kAlways;  // both operands may be the same value
      free_.push_back(values_[of].at);
    }
  }

  void set_outputs() {
    for (std::size_t f = 0; f < program_.size(); ++f) {
      FewRows::Output& to = to_.outputs_.emplace_back();
      if (wanted_[f] == 0) continue;
      const Value& value = values_[output(f)];
      to = {constant(output(f)) ? Varies::by_call : value.varies, value.at, value.fixed};
    }
    to_.size_ = std::max<std::size_t>(size_, kColumnLanes);
  }

  const Program& program_;
  std::span<const Column> columns_;
  std::size_t rows_;
  std::span<const std::uint8_t> wanted_;
  FewRows& to_;
  std::vector<Operation> operations_;      ///< operations of the program, after folding
  std::vector<std::uint32_t> stands_for_;  ///< by operation: the operation whose value equals its own
  std::vector<Value> values_;              ///< by operation
  std::vector<std::uint32_t> free_;        ///< free places of `block` values
  std::uint32_t size_ = 0;                 ///< size of a scratch so far, in doubles
};

FewRows::FewRows(const Program& program, std::span<const Column> columns, std::size_t rows,
                 std::span<const std::uint8_t> wanted) {
  if (columns.size() != program.inputs().size() || wanted.size() != program.size() || rows == 0) {
    fail(Errc::invalid_argument, "few rows: {} columns for {} inputs, {} marks for {} formulas, {} rows",
         columns.size(), program.inputs().size(), wanted.size(), program.size(), rows);
  }
  FewRowsCompiler(program, columns, rows, wanted, *this).run();
  for (const Input& input : program.inputs()) {
    if (!changes(input)) continue;
    const bool of_problem = input.depends.on(Source::problem);
    if (of_problem) record_ = program.groups()[input.group].record;
    fields_.push_back(static_cast<std::uint32_t>((of_problem ? 0 : kFields) + input.field));
  }
}

void FewRows::require(const Program& conditions, std::span<const Column> columns) {
  std::vector<std::uint8_t> wanted;
  for (std::size_t f = 0; f < conditions.size(); ++f) wanted.push_back(conditions.depends(f).problem_only());
  conditions_.emplace_back(conditions, columns, 1, wanted);
}

void FewRows::forget_fixed() noexcept {
  for (Output& output : outputs_) output.fixed = {};
}

void FewRows::set_call(std::span<const double> changing, Scratch& scratch) const {
  if (scratch.lines_.size() * kColumnLanes < size_) scratch.lines_.resize(size_ / kColumnLanes);
  double* const base = std::data(scratch.lines_.data()->values);
  std::ranges::copy(constants_, base);
  for (std::size_t i = 0; i < changing_.size(); ++i) base[changing_[i]] = changing[i];
  for (const CallStep& step : call_steps_) {
    base[step.out] = apply_code(step.code, base[step.a], base[step.b], base[step.c]);
  }
}

void FewRows::set_rows(std::span<const std::uint32_t> rows, Scratch& scratch) const noexcept {
  double* const base = std::data(scratch.lines_.data()->values);
  const std::size_t columns = table_at_.size();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double* const row = table_.data() + rows[i] * columns;
    for (std::size_t column = 0; column < columns; ++column) base[table_at_[column] + i] = row[column];
  }
  for (const RowStep& step : row_steps_) {
    step.operation(base + step.a, base + step.b, base + step.c, base + step.out, rows.size());
  }
}

void FewRows::evaluate(std::size_t formula, std::span<const std::uint32_t> rows, std::span<double> out,
                       Scratch& scratch) const noexcept {
  for (std::size_t first = 0; first < rows.size(); first += block) {
    const auto some = rows.subspan(first, std::min(block, rows.size() - first));
    set_rows(some, scratch);
    for (std::size_t i = 0; i < some.size(); ++i) {
      const Varies how = varies(formula);
      out[first + i] = how == Varies::never ? fixed(formula)[some[i]]
                                            : values(formula, scratch)[how == Varies::by_row ? i : 0];
    }
  }
}

bool FewRows::set_problem(ProblemRef problem, Scratch& scratch) const {
  if (record_ && record_ != problem.space().fields.data()) return false;
  for (const FewRows& conditions : conditions_) {
    if (!conditions.set_problem(problem, scratch)) return false;
    for (std::size_t f = 0; f < conditions.outputs_.size(); ++f) {
      if (conditions.varies(f) != Varies::never && *conditions.values(f, scratch) == 0) return false;
    }
  }
  std::array<double, kFields + field_count<Signature>> all, changing;
  std::ranges::copy(ProblemNumbers(problem).all(), all.begin());
  if (std::ranges::any_of(fields_, [](std::uint32_t field) { return field >= kFields; })) {
    const Signature signature = signature_of(problem);
    std::size_t next = kFields;
    for_each_field<Signature>([&](const auto& field) { all[next++] = to_number(signature.*field.member); });
  }
  for (std::size_t i = 0; i < fields_.size(); ++i) changing[i] = all[fields_[i]];
  set_call(std::span(changing).first(fields_.size()), scratch);
  return true;
}

}  // namespace kscout::expr
