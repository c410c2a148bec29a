#include "family/legality.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>

#include <kscout/provider.h>

#include "core/fail.h"
#include "core/fork_mutex.h"
#include "expr/expr.h"
#include "family/family_file.h"
#include "family/rules.h"

namespace kscout {
namespace {

constexpr std::uint32_t kSignatureOnly = 1U << static_cast<int>(expr::Source::signature);

/// The rules of one kind, compiled as one program.
class RuleGroup {
 public:
  RuleGroup(const FamilyFile& file, RuleKind kind) {
    std::ranges::copy_if(file.rules, std::back_inserter(rules_),
                         [&](const Rule& rule) { return rule.kind == kind && !rule.slow; });
    // Applicability rules are self-contained: models store them without the terms of the file.
    const bool for_problems = kind == RuleKind::applicability;
    program_ = expr::Program::compile(
        formulas_of(rules_),
        family_scope(*file.space, for_problems ? std::span<const expr::Formula>() : file.formulas,
                     for_problems));
  }

  const expr::Program& program() const noexcept { return program_; }

  /// The reason of the first rule that refuses; rules that read other sources than `sources` are skipped.
  std::string refusal(const expr::Inputs& inputs, const Device& device, std::uint32_t sources = ~0U) const {
    thread_local expr::Scratch scratch;
    thread_local std::vector<double> values;
    values.resize(rules_.size());
    program_.evaluate(inputs.columns(), 1, values, scratch);
    for (std::size_t i = 0; i < rules_.size(); ++i) {
      if (admits(values[i]) || (program_.depends(i).sources & ~sources) != 0) continue;
      return fmt::format("rule '{}': {} ({})", rules_[i].name, rules_[i].because,
                         values_read(i, inputs, device));
    }
    return {};
  }

 private:
  /// "c.kind = tiled, c.mr = 9": the values that a rule reads.
  std::string values_read(std::size_t rule, const expr::Inputs& inputs, const Device& device) const {
    const auto operations = program_.operations();
    std::vector<bool> is_read(operations.size());
    is_read[program_.outputs()[rule]] = true;
    for (std::size_t i = operations.size(); i-- > 0;) {
      if (!is_read[i] || operations[i].code == expr::Code::constant) continue;
      if (operations[i].code == expr::Code::input) continue;
      is_read[operations[i].a] = is_read[operations[i].b] = is_read[operations[i].c] = true;
    }
    std::string text;
    for (std::size_t i = 0; i < operations.size(); ++i) {
      if (!is_read[i] || operations[i].code != expr::Code::input) continue;
      const std::size_t input = operations[i].a;
      text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", program_.inputs()[input].name,
                          value_text(program_.inputs()[input], *inputs.columns()[input].data, device));
    }
    return text;
  }

  static std::string value_text(const expr::Input& input, double value, const Device& device) {
    if (input.kind == expr::ValueKind::text) {  // only devices have texts; formulas see their hashes
      std::string text;
      for_each_field<Device>([&](const auto& field) {
        if constexpr (std::is_same_v<typename std::remove_cvref_t<decltype(field)>::value, std::string>) {
          if (input.name == fmt::format("d.{}", field.name)) text = device.*field.member;
        }
      });
      return text.empty() ? "unknown" : text;
    }
    if (value != value) return "unknown";
    if (input.kind == expr::ValueKind::words)
      return std::string(input.words[static_cast<std::size_t>(value)]);
    return fmt::format("{}", value);
  }

  std::vector<Rule> rules_;
  expr::Program program_;
};

ForkMutex compiling(ForkLevel::files);
std::map<std::pair<const ConfigSpace*, RuleKind>, RuleGroup> compiled;

/// The rules of a space's family. Reads them on first use; references to them stay valid.
const RuleGroup& rules_of(const ConfigSpace& space, RuleKind kind) {
  const std::lock_guard lock(compiling);
  const std::pair key(&space, kind);
  const auto known = compiled.find(key);
  if (known != compiled.end()) return known->second;
  return compiled.try_emplace(key, family_rules(space), kind).first->second;
}

}  // namespace

std::string signature_refusal(const ConfigSpace& space, const Signature& signature) {
  // Reading a model prints all of its configs under one signature.
  thread_local std::pair<const ConfigSpace*, Signature> admitted;
  if (admitted.first == &space && admitted.second == signature) return {};
  const RuleGroup& legal = rules_of(space, RuleKind::legal);
  expr::Inputs inputs(legal.program());
  inputs.set("s", signature);
  std::string why = legal.refusal(inputs, {}, kSignatureOnly);
  if (why.empty()) admitted = {&space, signature};
  return why;
}

void check_signature(const Provider& provider, const Signature& signature) {
  if (const std::string why = signature_refusal(provider.space(signature.op), signature); !why.empty())
    fail(Errc::unsupported, "{} {}: {}", provider.name(), word(signature.op), why);
}

std::string legal_refusal(const Signature& signature, const KernelConfig& config, const Device& device) {
  const RuleGroup& legal = rules_of(*config.space, RuleKind::legal);
  expr::Inputs inputs(legal.program());
  inputs.set("c", config);
  inputs.set("d", device);
  inputs.set("s", signature);
  return legal.refusal(inputs, device);
}

std::string rule_refusal(ProblemRef problem, const KernelConfig& config, const Device& device) {
  const Signature signature = signature_of(problem);
  if (std::string why = legal_refusal(signature, config, device); !why.empty()) return why;
  const RuleGroup& applicability = rules_of(*config.space, RuleKind::applicability);
  expr::Inputs inputs(applicability.program());
  inputs.set("c", config);
  inputs.set("d", device);
  inputs.set("s", signature);
  inputs.set("t", provider(config.space->provider).traits(signature, config, device));
  inputs.set("p", problem);
  return applicability.refusal(inputs, device);
}

}  // namespace kscout
