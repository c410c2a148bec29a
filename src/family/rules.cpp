
#include "family/rules.h"

#include <array>
#include <numeric>

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

/// The inputs that the rules read from configs and device.
expr::Inputs fixed_inputs(const expr::Program& program, const ConfigTable& configs,
                          std::span<const Traits> traits, const Device& device) {
  if (traits.size() != configs.size()) {
    fail(Errc::invalid_argument, "applicability rules: traits of {} configs for {}", traits.size(),
         configs.size());
  }
  expr::Inputs inputs(program);
  inputs.set_rows("c", configs);
  inputs.set_rows("t", traits);
  inputs.set("d", device);
  return inputs;
}

}  // namespace

ApplicabilityRules::ApplicabilityRules(std::span<const Rule> rules, const ConfigTable& configs,
                                       std::span<const Traits> traits, const Device& device)
    : program_(compile_rules(rules, configs.space())),
      rows_(program_, fixed_inputs(program_, configs, traits, device).columns(), configs.size(),
            std::vector<std::uint8_t>(program_.size(), 1)),
      admitted_(configs.size(), 1) {
  for (std::uint32_t rule = 0; rule < program_.size(); ++rule) {
    const Varies varies = rows_.varies(rule);
    if (varies == Varies::by_call) by_problem_.push_back(rule);
    if (varies == Varies::by_row) by_config_.push_back(rule);
    if (varies != Varies::never) continue;
    const auto answers = rows_.fixed(rule);
    for (std::size_t config = 0; config < configs.size(); ++config)
      admitted_[config] &= admits(answers[config]);
  }
  rows_.forget_fixed();
}

bool ApplicabilityRules::set_problem(ProblemRef problem, Scratch& scratch) const {
  if (!rows_.set_problem(problem, scratch)) {
    fail(Errc::unsupported, "{}: the formulas read problems of another operation", print(problem));
  }
  return std::ranges::all_of(by_problem_,
                             [&](std::uint32_t rule) { return admits(*rows_.values(rule, scratch)); });
}

void ApplicabilityRules::evaluate_block(std::span<const std::uint32_t> picked,
                                        std::span<std::uint8_t> applicable, Scratch& scratch) const {
  rows_.set_rows(picked, scratch);
  for (std::size_t i = 0; i < picked.size(); ++i) applicable[i] = admitted_[picked[i]];
  for (const std::uint32_t rule : by_config_) {
    const double* const answers = rows_.values(rule, scratch);
    for (std::size_t i = 0; i < picked.size(); ++i) applicable[i] &= admits(answers[i]);
  }
}

void ApplicabilityRules::evaluate(ProblemRef problem, std::span<const std::uint32_t> picked,
                                  std::span<std::uint8_t> applicable, Scratch& scratch) const {
  if (!set_problem(problem, scratch)) {
    std::ranges::fill(applicable, 0);
    return;
  }
  for (std::size_t first = 0; first < picked.size(); first += expr::FewRows::block) {
    const std::size_t count = std::min(expr::FewRows::block, picked.size() - first);
    evaluate_block(picked.subspan(first, count), applicable.subspan(first, count), scratch);
  }
}

void ApplicabilityRules::evaluate(ProblemRef problem, std::span<std::uint8_t> applicable,
                                  Scratch& scratch) const {
  if (applicable.size() != configs()) {
    fail(Errc::invalid_argument, "applicability rules: room for {} results, {} configs", applicable.size(),
         configs());
  }
  if (!set_problem(problem, scratch)) {
    std::ranges::fill(applicable, 0);
    return;
  }
  std::array<std::uint32_t, expr::FewRows::block> picked;
  for (std::size_t first = 0; first < applicable.size(); first += picked.size()) {
    const std::size_t count = std::min(picked.size(), applicable.size() - first);
    std::iota(picked.begin(), picked.end(), static_cast<std::uint32_t>(first));
    evaluate_block(std::span(picked).first(count), applicable.subspan(first, count), scratch);
  }
}

std::optional<Rule> refusing_rule(std::span<const Rule> rules, ProblemRef problem, const KernelConfig& config,
                                  const Device& device) {
  ConfigTable one(*config.space);
  one.push_back(config);
  const Traits traits = provider(config.space->provider).traits(signature_of(problem), config, device);
  ApplicabilityRules::Scratch scratch;
  for (const Rule& rule : rules) {
    const ApplicabilityRules asked(std::span(&rule, 1), one, std::span(&traits, 1), device);
    std::uint8_t applicable = 0;
    asked.evaluate(problem, std::span(&applicable, 1), scratch);
    if (applicable == 0) return rule;
  }
  return std::nullopt;
}

std::vector<bool> holding_configs(const expr::Formula& formula, std::span<const KernelConfig> configs,
                                  const Device& device, const Signature& signature) {
  std::vector<bool> holding;
  if (configs.empty()) return holding;
  const auto program = expr::Program::compile({formula}, family_scope(*configs.front().space, {}, false));
  for (const KernelConfig& config : configs) {
    expr::Inputs inputs(program);
    inputs.set("c", config);
    inputs.set("d", device);
    inputs.set("s", signature);
    holding.push_back(admits(expr::values_of(program, inputs).front()));
  }
  return holding;
}

}  // namespace kscout
