#include <algorithm>

#include <kscout/family.h>
#include <kscout/provider.h>

#include "core/fail.h"
#include "family/family_file.h"
#include "family/serve_rules.h"

namespace kscout {
namespace {

/// First config for which a formula of the list holds, the earlier formula before the earlier config.
std::size_t default_position(const FamilyFile& file, const FamilyRequest& request,
                             const ConfigTable& configs) {
  for (const std::string& text : file.rule_set(request.rules).default_config) {
    const auto program =
        expr::Program::compile({{"default_config", text}}, family_scope(*file.space, file.formulas, false));
    expr::Inputs inputs(program);
    inputs.set_rows("c", configs);
    inputs.set("d", request.device);
    inputs.set("s", request.signature);
    std::vector<double> holds(configs.size());
    expr::Scratch scratch;
    program.evaluate(inputs.columns(), configs.size(), holds, scratch);
    const auto found = std::ranges::find_if(holds, [](double value) { return value != 0 && value == value; });
    if (found != holds.end()) return static_cast<std::size_t>(found - holds.begin());
  }
  return 0;
}

[[noreturn]] void fail_empty(const FamilyFile& file, const FamilyRequest& request,
                             const EnumerationReport& report) {
  if (report.candidates == 0) {
    fail(Errc::unsupported,
         "rule set '{}' of provider '{}' names no config for {} {}: kscout kernels --rule-sets lists sets "
         "that do",
         request.rules, request.provider, word(request.signature.dtype_a), word(request.signature.layout));
  }
  const auto worst = std::ranges::max_element(report.refused, {}, &EnumerationReport::Refusal::configs);
  std::string because;
  for (const Rule& rule : file.rules) {
    if (worst != report.refused.end() && rule.name == worst->rule) because = " (" + rule.because + ")";
  }
  fail(Errc::unsupported,
       "no config of provider '{}', rule set '{}' is left for {} on '{}': rule '{}' refused {} of {}{}",
       request.provider, request.rules, word(request.signature.dtype_a), request.device.name,
       worst == report.refused.end() ? "" : worst->rule, worst == report.refused.end() ? 0 : worst->configs,
       report.candidates, because);
}

}  // namespace

std::string Family::name(std::size_t config) const {
  return kscout::provider(provider).print(signature, configs[config]);
}

Family enumerate(const FamilyRequest& asked, EnumerationReport* report) {
  const Provider& by = provider(asked.provider);
  const RuleSource source = find_rules(asked.provider, asked.signature.op, asked.rules);
  const FamilyFile& file = *source.file;
  FamilyRequest request = asked;
  request.rules = source.set;
  EnumerationReport own;
  EnumerationReport& counts = report ? *report : own;
  Family family{.provider = request.provider,
                .signature = request.signature,
                .device = request.device,
                .rules = asked.rules,
                .configs = enumerate_configs(file, request, &counts),
                .traits = {},
                .serves = {},
                .default_config = 0};
  if (family.configs.empty()) fail_empty(file, request, counts);
  family.traits.reserve(family.configs.size());
  for (std::size_t i = 0; i < family.configs.size(); ++i) {
    family.traits.push_back(by.traits(request.signature, family.configs[i], request.device));
  }
  std::ranges::copy_if(file.rules, std::back_inserter(family.serves),
                       [](const Rule& rule) { return rule.kind == RuleKind::serves; });
  family.default_config = default_position(file, request, family.configs);
  return family;
}

std::vector<std::string> rule_set_names(std::string_view provider_name, Op op) {
  std::vector<std::string> names;
  for (const RuleSet& set : family_file(provider_name, op).rule_sets) names.push_back(set.name);
  return names;
}

std::vector<Rule> why_not(const FamilyRequest& asked, const KernelConfig& config) {
  const RuleSource source = find_rules(asked.provider, asked.signature.op, asked.rules);
  FamilyRequest request = asked;
  request.rules = source.set;
  const auto own = provider(asked.provider).own(config);
  return why_not_in(*source.file, request, own.value_or(config));
}

void serving_configs(const Family& family, ProblemRef problem, std::vector<std::uint8_t>& serves) {
  serves.assign(family.configs.size(), 1);
  ServeRules::Scratch scratch;
  ServeRules(family.serves, family.configs, family.traits, family.device).ask(problem, serves, scratch);
}

}  // namespace kscout
