/// \file
/// Explains configs: the rules that refuse one, the lists that lack it, and what is known of its source.
#include <algorithm>

#include "core/fail.h"
#include "family/family_file.h"
#include "family/rules.h"

namespace kscout {
namespace {

/// Compares a config with values of a block.
class ValueTest {
 public:
  ValueTest(const FamilyFile& file, const FamilyRequest& request, const KernelConfig& config)
      : scope_(family_scope(*file.space, file.formulas, false)), request_(request), config_(config) {}

  bool is(std::size_t axis, const AxisValue& value) const {
    if (value.formula.empty()) return value.number == config_[axis];
    BoundProgram program({{"value", value.formula}}, scope_, request_);
    return program.evaluate(config_)[0] == expr::axis_number(config_[axis]);
  }

 private:
  expr::Scope scope_;
  const FamilyRequest& request_;
  const KernelConfig& config_;
};

/// The axes on which the config differs from the nearest of the block's rows.
std::vector<std::size_t> axes_outside_rows(const ConfigBlock& block, const ValueTest& config) {
  std::vector<std::size_t> fewest = block.row_axes;
  for (const auto& row : block.rows) {
    std::vector<std::size_t> outside;
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (!config.is(block.row_axes[i], row[i])) outside.push_back(block.row_axes[i]);
    }
    if (outside.size() < fewest.size()) fewest = std::move(outside);
  }
  return fewest;
}

/// The axes whose value is not in the block's list.
std::vector<std::size_t> axes_outside(const FamilyFile& file, const FamilyRequest& request,
                                      const ConfigBlock& block, const KernelConfig& config) {
  const ValueTest test(file, request, config);
  std::vector<std::size_t> outside = axes_outside_rows(block, test);
  for (std::size_t axis = 0; axis < file.space->axes.size(); ++axis) {
    if (std::ranges::find(block.row_axes, axis) != block.row_axes.end()) continue;
    const bool inside =
        std::ranges::any_of(block.values[axis], [&](const AxisValue& value) { return test.is(axis, value); });
    if (!inside) outside.push_back(axis);
  }
  return outside;
}

/// Describes, in a sentence, the axes on which the config differs from the nearest block.
std::string outside_sentence(const FamilyFile& file, const ConfigBlock& block,
                             std::span<const std::size_t> axes, const KernelConfig& config) {
  std::string text = fmt::format("nearest block {}:", block.where);
  for (const std::size_t axis : axes) {
    std::vector<std::string> listed;
    if (block.values[axis].empty()) listed.emplace_back("its configs");
    for (const AxisValue& value : block.values[axis]) {
      listed.push_back(value.formula.empty() ? axis_value_text(file.space->axes[axis], value.number)
                                             : value.formula);
    }
    text += fmt::format("{} {} = {} is not among [{}]", axis == axes.front() ? "" : ";",
                        file.space->axes[axis].name, axis_value_text(file.space->axes[axis], config[axis]),
                        fmt::join(listed, ", "));
  }
  return text;
}

/// The block from which the config differs on the fewest axes.
struct NearestBlock {
  const ConfigBlock* block = nullptr;  ///< null: no block is for this signature and device
  std::vector<std::size_t> outside;    ///< the axes that differ; empty: the block contains the config
};

NearestBlock nearest_block(const FamilyFile& file, const FamilyRequest& request, const KernelConfig& config) {
  NearestBlock nearest;
  for (const ConfigBlock& block : file.rule_set(request.rules).blocks) {
    if (!block.when.empty()) {
      BoundProgram holds({{"when", block.when}}, family_scope(*file.space, file.formulas, false), request);
      if (!admits(holds.evaluate(config)[0])) continue;
    }
    auto outside = axes_outside(file, request, block, config);
    if (!nearest.block || outside.size() < nearest.outside.size()) nearest = {&block, std::move(outside)};
  }
  return nearest;
}

/// The rules, including the filter, that refuse the config.
std::vector<Rule> rules_refusing(const FamilyFile& file, const FamilyRequest& request,
                                 const KernelConfig& config) {
  const auto rules = membership_rules(file, request);
  BoundProgram program(formulas_of(rules), family_scope(*file.space, file.formulas, false), request);
  const auto answers = program.evaluate(config);
  std::vector<Rule> refusing;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    if (!admits(answers[i])) refusing.push_back(rules[i]);
  }
  return refusing;
}

/// Whether the table contains the config.
bool holds(const ConfigTable& configs, const KernelConfig& config) {
  for (std::size_t i = 0; i < configs.size(); ++i) {
    if (configs[i] == config) return true;
  }
  return false;
}

}  // namespace

std::vector<std::string> refusals_of_all_rules(const FamilyFile& file, const FamilyRequest& request,
                                               const ConfigTable& configs) {
  std::vector<Rule> rules;
  for (const Rule& rule : file.rules) {
    if (rule.kind != RuleKind::applicability) rules.push_back(rule);
  }
  std::vector<std::string> refusals(configs.size());
  if (rules.empty()) return refusals;
  BoundProgram program(formulas_of(rules), family_scope(*file.space, file.formulas, false), request);
  for (std::size_t i = 0; i < configs.size(); ++i) {
    const auto answers = program.evaluate(configs[i]);
    const auto refusing = std::ranges::find_if(answers, [](double answer) { return !admits(answer); });
    if (refusing == answers.end()) continue;
    const Rule& rule = rules[static_cast<std::size_t>(refusing - answers.begin())];
    refusals[i] = fmt::format("{}: {}", rule.name, rule.because);
  }
  return refusals;
}

std::vector<std::string> states_of_sources(const FamilyFile& file, const FamilyRequest& request,
                                           const ConfigTable& configs) {
  std::vector<std::string> states;
  if (file.compiled_against.empty()) return states;
  BoundProgram program({{"compiled where", file.compiled_where}},
                       family_scope(*file.space, file.formulas, false), request);
  for (std::size_t i = 0; i < configs.size(); ++i) {
    states.push_back(admits(program.evaluate(configs[i])[0]) ? "compiled against " + file.compiled_against
                                                             : "described, not compiled");
  }
  return states;
}

WhyNot why_not(const FamilyFile& file, const FamilyRequest& request, const KernelConfig& config) {
  if (config.space != file.space) {
    fail(Errc::invalid_argument, "a config of {} is not of the family {}",
         config.space ? config.space->provider : "no space", file.name);
  }
  const RuleSet& set = file.rule_set(request.rules);
  const WhyNot in{.refusing = rules_refusing(file, request, config), .axes_outside = 0};
  WhyNot of_member;
  if (set.from.starts_with(kMembersList)) {
    of_member = why_not_members(set.from, file, request, config);
    if (of_member.refusing.empty()) return in;
  } else if (set.blocks.empty() || !set.from.empty()) {
    FamilyRequest unfiltered = request;
    unfiltered.filter.clear();
    if (holds(enumerate_configs(file, unfiltered, nullptr), config)) return in;
  }
  const NearestBlock nearest = nearest_block(file, request, config);
  if (nearest.block && nearest.outside.empty()) return in;

  WhyNot out{.refusing = in.refusing, .axes_outside = of_member.axes_outside};
  out.refusing.insert(out.refusing.end(), of_member.refusing.begin(), of_member.refusing.end());
  const auto add = [&](std::string because) {
    out.refusing.push_back({"rule set " + set.name, RuleKind::worth, "", std::move(because)});
  };
  if (nearest.block) {
    if (nearest.outside.size() >= of_member.axes_outside) return out;
    add(outside_sentence(file, *nearest.block, nearest.outside, config));
    out.axes_outside = nearest.outside.size();
  } else if (out.refusing.empty() && !set.sample.of.empty()) {
    add(fmt::format("the sample of '{}' does not contain it", set.sample.of));
  } else if (out.refusing.empty() && set.blocks.empty()) {
    add(fmt::format("the list '{}' does not contain it", set.from));
  } else if (!set.blocks.empty() && of_member.refusing.empty()) {
    add("none of its blocks is for this signature and device");
  }
  return out;
}

std::vector<Rule> why_not_in(const FamilyFile& file, const FamilyRequest& request,
                             const KernelConfig& config) {
  return why_not(file, request, config).refusing;
}

}  // namespace kscout
