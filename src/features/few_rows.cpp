#include "features/few_rows.h"

#include <algorithm>

#include "op/operation.h"

namespace kscout {

Schema::FewRows::FewRows(const Schema& schema, const Device& device, const ConfigTable& configs,
                         std::span<const Traits> traits, std::span<const std::uint8_t> wanted)
    : kind_(operation(schema.data_.op).ops.front()),
      features_(*schema.program_, schema.fixed_inputs(*schema.program_, device, configs, traits),
                configs.size(), wanted) {
  schema.check_configs(device, configs, traits);
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

bool Schema::FewRows::evaluate(ProblemRef problem, std::span<const std::uint32_t> configs,
                               std::span<double> out, expr::FewRowsProgram::Scratch& scratch) const {
  if (!set_problem(problem, scratch)) return false;
  const Varies varies = features().varies(0);
  for (std::size_t first = 0; first < configs.size(); first += expr::FewRowsProgram::block) {
    const auto some = configs.subspan(first, std::min(expr::FewRowsProgram::block, configs.size() - first));
    features().set_rows(some, scratch);
    const double* const values = varies == Varies::never ? nullptr : features().values(0, scratch);
    for (std::size_t i = 0; i < some.size(); ++i) {
      out[first + i] = varies == Varies::never    ? features().fixed(0)[some[i]]
                       : varies == Varies::by_row ? values[i]
                                                  : *values;
    }
  }
  return true;
}

}  // namespace kscout
