#include "family/serve_rules.h"

#include "core/fail.h"
#include "family/family_file.h"

namespace kscout {
namespace {

expr::Program compile_rules(std::span<const Rule> rules, const ConfigSpace& space) {
  std::vector<expr::Formula> admits;
  for (const Rule& rule : rules) admits.push_back({"rule " + rule.name, rule.admits});
  return expr::Program::compile(admits, family_scope(space, {}, true));
}

/// What the rules read of configs and device.
expr::Inputs fixed_inputs(const expr::Program& program, const ConfigTable& configs,
                          std::span<const Traits> traits, const Device& device) {
  if (traits.size() != configs.size()) {
    fail(Errc::invalid_argument, "serve rules: traits of {} configs for {}", traits.size(), configs.size());
  }
  expr::Inputs inputs(program);
  inputs.set_rows("c", configs);
  inputs.set_rows("t", traits);
  inputs.set("d", device);
  return inputs;
}

}  // namespace

ServeRules::ServeRules(std::span<const Rule> rules, const ConfigTable& configs,
                       std::span<const Traits> traits, const Device& device)
    : program_(compile_rules(rules, configs.space())),
      inputs_(program_, fixed_inputs(program_, configs, traits, device)),
      configs_(configs.size()) {}

void ServeRules::ask(ProblemRef problem, std::span<std::uint8_t> serves, Scratch& scratch) const {
  if (serves.size() != configs_) {
    fail(Errc::invalid_argument, "serve rules: room for {} answers, {} configs", serves.size(), configs_);
  }
  scratch.answers.resize(program_.size() * configs_);
  program_.evaluate(inputs_.columns(problem, scratch.inputs), configs_, scratch.answers, scratch.expr);
  for (std::size_t config = 0; config < configs_; ++config) {
    bool all = true;
    for (std::size_t rule = 0; rule < program_.size(); ++rule) {
      const double answer = scratch.answers[rule * configs_ + config];
      all = all && answer != 0 && answer == answer;
    }
    serves[config] = all;
  }
}

}  // namespace kscout
