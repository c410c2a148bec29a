#include "family/legality.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <mutex>

#include <kscout/provider.h>

#include "core/fail.h"
#include "core/fork_mutex.h"
#include "expr/expr.h"
#include "family/family_file.h"
#include "family/rules.h"
#include "provider/joint.h"

namespace kscout {
namespace {

constexpr std::uint32_t kSignatureOnly = 1U << static_cast<int>(expr::Source::signature);

/// The rules of one kind, compiled as one program.
class RuleGroup {
 public:
  RuleGroup(const FamilyFile& file, RuleKind kind) {
    std::ranges::copy_if(file.rules, std::back_inserter(rules_),
                         [&](const Rule& rule) { return rule.kind == kind && !rule.slow; });
    // That results are wrong is what a caller most needs to know.
    std::stable_partition(rules_.begin(), rules_.end(), [](const Rule& rule) { return !rule.since.empty(); });
    // Applicability rules are self-contained: models store them without the terms of the file.
    const bool for_problems = kind == RuleKind::applicability;
    program_ = expr::Program::compile(
        formulas_of(rules_),
        family_scope(*file.space, for_problems ? std::span<const expr::Formula>() : file.formulas,
                     for_problems));
  }

  const expr::Program& program() const noexcept { return program_; }

  /// What the rules say. A rule whose value is unknown does not refuse: a later rule may.
  Verdict verdict(const expr::Inputs& inputs) const {
    const std::vector<double> values = expr::values_of(program_, inputs);
    const Rule* unknown = nullptr;
    for (std::size_t i = 0; i < rules_.size(); ++i) {
      if (values[i] == 0) return {VerdictStatus::refused, rules_[i].name, rules_[i].because, rules_[i].since};
      if (values[i] != values[i] && !unknown) unknown = &rules_[i];
    }
    if (!unknown) return {.status = VerdictStatus::allowed};
    return {.because = fmt::format("rule {} reads an axis of the config or a fact of the device that is "
                                   "not known: {}",
                                   unknown->name, unknown->because)};
  }

  /// Sets `marks[row]` to 0 where a rule refuses.
  void admit(const expr::Inputs& inputs, Asked rules, std::span<std::uint8_t> marks) const {
    const std::vector<double> values = expr::values_of(program_, inputs, marks.size());
    for (std::size_t i = 0; i < rules_.size(); ++i) {
      if (rules == Asked::suggested && !rules_[i].suggested) continue;
      for (std::size_t row = 0; row < marks.size(); ++row) {
        if (values[i * marks.size() + row] == 0) marks[row] = 0;
      }
    }
  }

  /// The reason of the first rule that refuses; rules that read other sources than `sources` are skipped.
  std::string refusal(const expr::Inputs& inputs, const Device& device, std::uint32_t sources = ~0U) const {
    const std::vector<double> values = expr::values_of(program_, inputs);
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

/// The compiled rules of one space.
struct CompiledRules {
  explicit CompiledRules(const FamilyFile& file)
      : legal(file, RuleKind::legal),
        applicability(file, RuleKind::applicability),
        releases(file.releases),
        limits(expr::Program::compile(
            {{"limit deterministic", file.deterministic.empty() ? "0" : file.deterministic},
             {"limit workspace_bytes", file.workspace_bytes.empty() ? "-1" : file.workspace_bytes}},
            family_scope(*file.space, file.formulas, true))) {}
  RuleGroup legal, applicability;
  std::vector<std::int32_t> releases;  ///< FamilyFile::releases
  expr::Program limits;                ///< FamilyFile::deterministic, workspace_bytes; -1: not known
};

ForkMutex compiling(ForkLevel::files);
std::map<const ConfigSpace*, CompiledRules> compiled;

/// The rules of a space's family. Reads them on first use; references to them stay valid.
const CompiledRules& rules_of(const ConfigSpace& space) {
  const std::lock_guard lock(compiling);
  const auto known = compiled.find(&space);
  if (known != compiled.end()) return known->second;
  return compiled.try_emplace(&space, family_rules(space)).first->second;
}

/// Why the rules cannot know a config that none of them refuses; empty when they can.
std::string unknown_config(const KernelConfig& config, std::span<const std::int32_t> releases) {
  const auto value = [&](std::string_view axis) {
    const auto at = std::ranges::find(config.space->axes, axis, &Axis::name);
    const std::int32_t found = at == config.space->axes.end()
                                   ? 0
                                   : config[static_cast<std::size_t>(at - config.space->axes.begin())];
    return found == KernelConfig::unknown ? 0 : found;
  };
  const bool named = value("algorithm") > 0 || value("engine") > 0;
  if (const std::int32_t suggestion = value("suggestion"); suggestion > 0 && !named) {
    return fmt::format(
        "suggestion {} stands for an algorithm that the library names when it prepares the "
        "problem; name that algorithm",
        suggestion);
  }
  const std::int32_t version = value("version");
  if (releases.empty() || std::ranges::find(releases, version) != releases.end()) return {};
  const std::string known = fmt::format("{}", fmt::join(releases, ", "));
  if (version == 0)
    return fmt::format("the config names no release of {}; its rules were measured with {}",
                       config.space->provider, known);
  return fmt::format("the rules of {} were measured with release {}, not with {}", config.space->provider,
                     known, version);
}

/// What rules about a config for a problem may read.
expr::Inputs inputs_of(const expr::Program& program, ProblemRef problem, const Signature& signature,
                       const KernelConfig& config, const Device& device) {
  expr::Inputs inputs(program);
  inputs.set("c", config);
  inputs.set("d", device);
  inputs.set("s", signature);
  inputs.set("t", provider(config.space->provider).traits(signature, config, device));
  inputs.set("p", problem);
  return inputs;
}

/// The values of the two formulas of CompiledRules::limits.
std::vector<double> limit_values(ProblemRef problem, const KernelConfig& asked, const Device& device) {
  const KernelConfig config = member_config(asked);
  const Signature signature = signature_of(problem);
  const expr::Program& program = rules_of(*config.space).limits;
  return expr::values_of(program, inputs_of(program, problem, signature, config, device));
}

}  // namespace

std::string deterministic_refusal(ProblemRef problem, const KernelConfig& config, const Device& device) {
  if (admits(limit_values(problem, config, device)[0])) return {};
  return fmt::format("deterministic: its family '{}' does not state that it gives equal bits in every run",
                     config.space->provider);
}

double workspace_bound(ProblemRef problem, const KernelConfig& config, const Device& device) {
  const double bytes = limit_values(problem, config, device)[1];
  return bytes >= 0 ? bytes : std::numeric_limits<double>::quiet_NaN();
}

std::string signature_refusal(const ConfigSpace& space, const Signature& signature) {
  // Reading a model prints all of its configs under one signature.
  thread_local std::pair<const ConfigSpace*, Signature> admitted;
  if (admitted.first == &space && admitted.second == signature) return {};
  const RuleGroup& legal = rules_of(space).legal;
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
  const RuleGroup& legal = rules_of(*config.space).legal;
  expr::Inputs inputs(legal.program());
  inputs.set("c", config);
  inputs.set("d", device);
  inputs.set("s", signature);
  return legal.refusal(inputs, device);
}

std::string rule_refusal(ProblemRef problem, const KernelConfig& config, const Device& device) {
  const Signature signature = signature_of(problem);
  if (std::string why = legal_refusal(signature, config, device); !why.empty()) return why;
  const RuleGroup& applicability = rules_of(*config.space).applicability;
  const expr::Inputs inputs = inputs_of(applicability.program(), problem, signature, config, device);
  return applicability.refusal(inputs, device);
}

std::vector<std::uint8_t> admitted(ProblemRef problem, const ConfigTable& configs, const Device& device,
                                   Asked rules) {
  std::vector<std::uint8_t> marks(configs.size(), 1);
  if (configs.empty()) return marks;
  const Signature signature = signature_of(problem);
  const Provider& of = provider(configs.space().provider);
  std::vector<Traits> traits;
  for (std::size_t i = 0; i < configs.size(); ++i) traits.push_back(of.traits(signature, configs[i], device));
  const CompiledRules& of_space = rules_of(configs.space());
  for (const RuleGroup* const group : {&of_space.legal, &of_space.applicability}) {
    expr::Inputs inputs(group->program());
    inputs.set_rows("c", configs);
    inputs.set("d", device);
    inputs.set("s", signature);
    if (group == &of_space.applicability) {
      inputs.set_rows("t", std::span<const Traits>(traits));
      inputs.set("p", problem);
    }
    group->admit(inputs, rules, marks);
  }
  return marks;
}

Verdict rule_verdict(ProblemRef problem, const KernelConfig& asked, const Device& device) {
  check(problem);
  if (!asked.space) fail(Errc::invalid_argument, "{}: the config has no space", print(problem));
  const KernelConfig config = member_config(asked);
  if (config.space->op != problem.op()) {
    return {
        VerdictStatus::refused, "operation",
        fmt::format("the config computes {}, the problem is {}", word(config.space->op), word(problem.op())),
        ""};
  }
  const Signature signature = signature_of(problem);
  const CompiledRules& rules = rules_of(*config.space);
  expr::Inputs fixed(rules.legal.program());
  fixed.set("c", config);
  fixed.set("d", device);
  fixed.set("s", signature);
  const Verdict legal = rules.legal.verdict(fixed);
  if (legal.status == VerdictStatus::refused) return legal;
  const expr::Inputs inputs = inputs_of(rules.applicability.program(), problem, signature, config, device);
  Verdict applicable = rules.applicability.verdict(inputs);
  if (applicable.status == VerdictStatus::refused) return applicable;
  if (std::string why = unknown_config(config, rules.releases); !why.empty())
    return {.because = std::move(why)};
  return legal.status == VerdictStatus::unknown ? legal : applicable;
}

}  // namespace kscout
