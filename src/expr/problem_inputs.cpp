#include "expr/problem_inputs.h"

#include <algorithm>

#include "core/fail.h"

namespace kscout::expr {
namespace {

/// The values of a record's fields, in order.
template <Record T>
std::array<double, field_count<T>> numbers_of(const T& record) {
  std::array<double, field_count<T>> numbers;
  std::size_t next = 0;
  for_each_field<T>([&](const auto& field) { numbers[next++] = to_number(record.*field.member); });
  return numbers;
}

}  // namespace

ProblemInputs::ProblemInputs(const Program& program, Inputs fixed) : fixed_(std::move(fixed)) {
  for (std::uint32_t i = 0; i < program.inputs().size(); ++i) {
    const Input& input = program.inputs()[i];
    const void* const record = program.groups()[input.group].record;
    const auto field = static_cast<std::uint32_t>(input.field);
    if (record == &Fields<GemmProblem>::list || record == &Fields<ConvProblem>::list) {
      record_ = record;
      from_problem_.push_back({i, field});
    }
    if (record == &Fields<Signature>::list) from_signature_.push_back({i, field});
  }
}

std::span<const Column> ProblemInputs::columns(ProblemRef problem, Memory& memory) const {
  const auto fixed = fixed_.columns();
  memory.columns.assign(fixed.begin(), fixed.end());
  memory.values.resize(fixed.size());
  const auto fill = [&](std::span<const Filled> filled, std::span<const double> numbers) {
    for (const Filled& f : filled) {
      memory.values[f.input] = numbers[f.field];
      memory.columns[f.input] = {&memory.values[f.input], 0};
    }
  };
  if (record_) {
    problem.visit([&]<class P>(const P& of) {
      if (record_ != &Fields<P>::list) {
        fail(Errc::unsupported, "{}: these formulas are about problems of another operation", print(of));
      }
      fill(from_problem_, numbers_of(of));
    });
  }
  if (!from_signature_.empty()) fill(from_signature_, numbers_of(signature_of(problem)));
  return memory.columns;
}

}  // namespace kscout::expr
