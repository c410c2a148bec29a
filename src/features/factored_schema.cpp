#include "features/factored_schema.h"

namespace kscout {

Schema::Factored::Asked Schema::Factored::ask(const expr::Program& program, const expr::Inputs& inputs,
                                              std::size_t rows, std::span<const std::uint8_t> wanted) {
  std::vector<std::uint8_t> changing;
  std::vector<std::uint32_t> fields;
  for (const expr::Input& input : program.inputs()) {
    changing.push_back(input.depends.on(expr::Source::problem));
    if (changing.back() != 0) fields.push_back(static_cast<std::uint32_t>(input.field));
  }
  return {expr::TupleProgram(program, inputs.columns(), rows, changing, wanted), std::move(fields)};
}

Schema::Factored::Factored(const Schema& schema, const Device& device, const ConfigTable& configs,
                           std::span<const Traits> traits, std::span<const std::uint8_t> wanted)
    : of_conv_(is_conv(schema.data_.op)), features_([&] {
        const Rows checked(schema, device, configs, traits);
        return ask(*schema.program_, checked.inputs_.fixed(), configs.size(), wanted);
      }()) {
  for (const Check& check : *schema.problem_checks_) {
    expr::Inputs inputs(check.program);
    inputs.set("d", device);
    checks_.push_back(ask(check.program, inputs, 1, std::array<std::uint8_t, 1>{1}));
  }
}

Schema::Factored::Scratch::Scratch(const Factored& of) : features(of.features_.program) {
  for (const Asked& check : of.checks_) checks.emplace_back(check.program);
}

void Schema::Factored::Asked::evaluate(const ProblemValues& values,
                                       expr::TupleProgram::Scratch& scratch) const noexcept {
  ProblemValues changing;
  for (std::size_t i = 0; i < fields.size(); ++i) changing[i] = values[fields[i]];
  program.evaluate(std::span(changing).first(fields.size()), scratch);
}

bool Schema::Factored::evaluate(ProblemRef problem, Scratch& scratch) const noexcept {
  if ((problem.conv() != nullptr) != of_conv_) return false;
  ProblemValues values;
  std::size_t field = 0;
  problem.visit([&]<class P>(const P& of) {
    for_each_field<P>([&](const auto& read) { values[field++] = expr::to_number(of.*read.member); });
  });
  for (std::size_t i = 0; i < checks_.size(); ++i) {
    checks_[i].evaluate(values, scratch.checks[i]);
    const double held = checks_[i].program.values(0, scratch.checks[i])[0];
    if (!(held != 0)) return false;
  }
  features_.evaluate(values, scratch.features);
  return true;
}

}  // namespace kscout
