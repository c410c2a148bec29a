#include "features/few_rows.h"

namespace kscout {

Schema::FewRows::FewRows(const Schema& schema, const Device& device, const ConfigTable& configs,
                         std::span<const Traits> traits, std::span<const std::uint8_t> wanted)
    : of_conv_(is_conv(schema.data_.op)), features_([&] {
        const Rows checked(schema, device, configs, traits);
        return expr::ProblemRows(*schema.program_, checked.inputs_.fixed(), configs.size(), wanted);
      }()) {
  for (const Check& check : *schema.problem_checks_) {
    expr::Inputs inputs(check.program);
    inputs.set("d", device);
    checks_.emplace_back(check.program, inputs, 1, std::array<std::uint8_t, 1>{1});
  }
}

Schema::FewRows::Scratch::Scratch(const FewRows& of) : features(of.features()) {
  for (const auto& check : of.checks_) checks.emplace_back(check.program());
}

bool Schema::FewRows::set_problem(ProblemRef problem, Scratch& scratch) const {
  if ((problem.conv() != nullptr) != of_conv_) return false;
  for (std::size_t i = 0; i < checks_.size(); ++i) {
    checks_[i].set_problem(problem, scratch.checks[i]);
    const double held = *checks_[i].program().values(0, scratch.checks[i]);
    if (!(held != 0)) return false;
  }
  return features_.set_problem(problem, scratch.features);
}

}  // namespace kscout
