
#include <algorithm>

#include "core/fail.h"
#include "expr/expr.h"
#include "expr/few_rows.h"
#include "expr/operations.h"

namespace kscout::expr {
namespace {

/// Rows per block. With this size, the values of a program of 500 operations stay in a level-2 cache.
constexpr std::size_t kBlock = 64;

template <Code code>
void apply_block(const Column& a, const Column& b, const Column& c, double* out, std::size_t rows) {
  // The strides are explicit so that the compiler can vectorise the common cases.
  if (a.stride == 1 && b.stride == 1 && c.stride == 1) {
    for (std::size_t i = 0; i < rows; ++i) out[i] = apply<code>(a.data[i], b.data[i], c.data[i]);
  } else if (a.stride == 1 && b.stride == 0) {
    const double fixed = *b.data;
    for (std::size_t i = 0; i < rows; ++i) out[i] = apply<code>(a.data[i], fixed, c.data[i * c.stride]);
  } else if (a.stride == 0 && b.stride == 1) {
    const double fixed = *a.data;
    for (std::size_t i = 0; i < rows; ++i) out[i] = apply<code>(fixed, b.data[i], c.data[i * c.stride]);
  } else {
    for (std::size_t i = 0; i < rows; ++i) {
      out[i] = apply<code>(a.data[i * a.stride], b.data[i * b.stride], c.data[i * c.stride]);
    }
  }
}

}  // namespace

void Program::evaluate(std::span<const Column> inputs, std::size_t rows, std::span<double> out,
                       Scratch& scratch) const {
  if (out.size() != size() * rows) {
    fail(Errc::invalid_argument, "evaluate: room for {} values; {} formulas of {} rows need {}", out.size(),
         size(), rows, size() * rows);
  }
  evaluate(inputs, rows, out.data(), 1, rows, scratch);
}

void Program::evaluate(std::span<const Column> inputs, std::size_t rows, double* out, std::size_t row_stride,
                       std::size_t formula_stride, Scratch& scratch) const {
  if (inputs.size() != inputs_.size()) {
    fail(Errc::invalid_argument, "evaluate: {} columns given, the program reads {}", inputs.size(),
         inputs_.size());
  }
  const std::size_t block = std::min(rows, kBlock);
  if (scratch.blocks.size() < operations_.size() * block) scratch.blocks.resize(operations_.size() * block);
  if (scratch.uniform.size() < operations_.size()) {
    scratch.uniform.resize(operations_.size());
    scratch.is_uniform.resize(operations_.size());
  }
  double* const uniform = scratch.uniform.data();
  std::uint8_t* const is_uniform = scratch.is_uniform.data();

  for (std::size_t i = 0; i < operations_.size(); ++i) {
    const Operation& op = operations_[i];
    if (op.code == Code::constant) {
      uniform[i] = op.value;
      is_uniform[i] = 1;
    } else if (op.code == Code::input) {
      is_uniform[i] = inputs[op.a].stride == 0;
      if (is_uniform[i]) uniform[i] = *inputs[op.a].data;
    } else {
      is_uniform[i] = is_uniform[op.a] && is_uniform[op.b] && is_uniform[op.c];
      if (is_uniform[i]) uniform[i] = apply_code(op.code, uniform[op.a], uniform[op.b], uniform[op.c]);
    }
  }

  for (std::size_t first = 0; first < rows; first += block) {
    const std::size_t count = std::min(block, rows - first);
    const auto column = [&](std::uint32_t position) -> Column {
      if (is_uniform[position]) return {uniform + position, 0};
      const Operation& op = operations_[position];
      if (op.code == Code::input) return {inputs[op.a].data + first, 1};
      return {scratch.blocks.data() + position * block, 1};
    };
    for (std::uint32_t i = 0; i < operations_.size(); ++i) {
      const Operation& op = operations_[i];
      if (is_uniform[i] || op.code == Code::input) continue;
      const Column a = column(op.a), b = column(op.b), c = column(op.c);
      double* const to = scratch.blocks.data() + i * block;
      with_code(op.code, [&]<Code code>() { apply_block<code>(a, b, c, to, count); });
    }
    for (std::size_t formula = 0; formula < size(); ++formula) {
      const Column from = column(outputs_[formula]);
      double* const to = out + first * row_stride + formula * formula_stride;
      for (std::size_t row = 0; row < count; ++row) to[row * row_stride] = from.data[row * from.stride];
    }
  }
}

std::vector<double> values_of(const Program& program, const Inputs& inputs, std::size_t rows) {
  std::vector<double> values(program.size() * rows);
  Scratch scratch;
  program.evaluate(inputs.columns(), rows, values, scratch);
  return values;
}

ProblemNumbers::ProblemNumbers(ProblemRef problem) noexcept {
  const Problem whole = problem.value();
  const auto values = whole.values();
  count = values.size();
  std::ranges::transform(values, number.begin(),
                         [](std::int64_t value) { return static_cast<double>(value); });
  number[count - 1] = whole.weight();  // stored as the bits of a double
}

}  // namespace kscout::expr
