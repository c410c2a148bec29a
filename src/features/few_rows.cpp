#include "features/few_rows.h"

#include "op/operation.h"

namespace kscout {

Schema::FewRows::FewRows(const Schema& schema, const Device& device, const ConfigTable& configs,
                         std::span<const Traits> traits, std::span<const std::uint8_t> wanted)
    : kind_(operation(schema.data_.op).ops.front()), features_([&] {
        const Rows checked(schema, device, configs, traits);
        return expr::ProblemRows(*schema.program_, checked.inputs_.fixed(), configs.size(), wanted);
      }()) {
  for (const Check& check : *schema.problem_checks_) {
    expr::Inputs inputs(check.program);
    inputs.set("d", device);
    checks_.emplace_back(check.program, inputs, 1, std::array<std::uint8_t, 1>{1});
  }
}

bool Schema::FewRows::set_problem(ProblemRef problem, expr::FewRowsProgram::Scratch& scratch) const {
  if (problem.kind() != kind_) return false;
  for (const expr::ProblemRows& check : checks_) {
    check.set_problem(problem, scratch);
    if (!(*check.program().values(0, scratch) != 0)) return false;
  }
  return features_.set_problem(problem, scratch);
}

}  // namespace kscout
