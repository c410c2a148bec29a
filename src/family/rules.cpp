
#include "family/rules.h"

#include <kscout/provider.h>

#include "core/fail.h"
#include "expr/expr.h"
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

std::optional<Rule> refusing_rule(std::span<const Rule> rules, ProblemRef problem, const KernelConfig& config,
                                  const Device& device) {
  ConfigTable one(*config.space);
  one.push_back(config);
  const Traits traits = provider(config.space->provider).traits(signature_of(problem), config, device);
  ServeRules::Scratch scratch;
  for (const Rule& rule : rules) {
    const ServeRules asked(std::span(&rule, 1), one, std::span(&traits, 1), device);
    std::uint8_t serves = 0;
    asked.ask(problem, std::span(&serves, 1), scratch);
    if (serves == 0) return rule;
  }
  return std::nullopt;
}

std::vector<bool> holding_configs(const std::string& formula, std::span<const KernelConfig> configs,
                                  const Device& device, const Signature& signature) {
  std::vector<bool> holding;
  if (configs.empty()) return holding;
  const auto program =
      expr::Program::compile({{"filter", formula}}, family_scope(*configs.front().space, {}, false));
  for (const KernelConfig& config : configs) {
    expr::Inputs inputs(program);
    inputs.set("c", config);
    inputs.set("d", device);
    inputs.set("s", signature);
    const double value = expr::evaluate_one(program, inputs);
    holding.push_back(value == value && value != 0);
  }
  return holding;
}

}  // namespace kscout
