
#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>

#include <fmt/format.h>

#include <kscout/conv_problem.h>
#include <kscout/family.h>
#include <kscout/provider.h>

#include "core/fail.h"
#include "core/files.h"
#include "core/fork_mutex.h"
#include "core/names.h"
#include "family/declared.h"
#include "family/family_file.h"
#include "family/rules.h"
#include "provider/ck_tile/family/ck_builder.h"
#include "provider/joint.h"

namespace kscout {
namespace {

/// Values of a formula over c., d., s., one per config.
std::vector<double> formula_values(const FamilyFile& file, const std::string& formula, const Device& device,
                                   const Signature& signature, const ConfigTable& configs) {
  // Each op has its own space, with the same axes and formulas.
  const auto program =
      expr::Program::compile({{"value", formula}}, family_scope(configs.space(), file.formulas, false));
  expr::Inputs inputs(program);
  inputs.set_rows("c", configs);
  inputs.set("d", device);
  inputs.set("s", signature);
  return expr::values_of(program, inputs, configs.size());
}

/// The first config that satisfies a formula of the list; an earlier formula has priority over an earlier
/// config.
std::size_t default_position(const FamilyFile& file, const FamilyRequest& request,
                             const ConfigTable& configs) {
  for (const std::string& text : file.rule_set(request.rules).default_config) {
    const auto holds = formula_values(file, text, request.device, request.signature, configs);
    const auto found = std::ranges::find_if(holds, admits);
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
  const auto filter = std::ranges::find(report.refused, "filter", &EnumerationReport::Refusal::rule);
  if (filter != report.refused.end() && filter->configs != 0) {
    because += filter == worst ? " (" + request.filter + ")"
                               : fmt::format("; filter '{}' refused {}", request.filter, filter->configs);
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
                .applicability = {},
                .default_config = 0};
  if (family.configs.empty()) fail_empty(file, request, counts);
  family.traits.reserve(family.configs.size());
  for (std::size_t i = 0; i < family.configs.size(); ++i) {
    family.traits.push_back(by.traits(request.signature, family.configs[i], request.device));
  }
  std::ranges::copy_if(file.rules, std::back_inserter(family.applicability),
                       [](const Rule& rule) { return rule.kind == RuleKind::applicability; });
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

void applicable_configs(const Family& family, ProblemRef problem, std::vector<std::uint8_t>& applicable) {
  applicable.assign(family.configs.size(), 1);
  ApplicabilityRules::Scratch scratch;
  ApplicabilityRules(family.applicability, family.configs, family.traits, family.device)
      .evaluate(problem, applicable, scratch);
}

// ---- The embedded family files, each read once, and look-ups in them.

const RuleSet& FamilyFile::rule_set(std::string_view wanted) const {
  std::vector<std::string_view> names;
  for (const RuleSet& set : rule_sets) names.push_back(set.name);
  return rule_sets[index_of_word("rule set", wanted, names)];
}

std::span<const double> FactTable::row(std::string_view key) const noexcept {
  for (const auto& [word, numbers] : rows) {
    if (word == key) return numbers;
  }
  return {};
}

const FactTable& FamilyFile::table(std::string_view wanted) const {
  const auto found = std::ranges::find(tables, wanted, &FactTable::name);
  if (found == tables.end()) fail(Errc::corrupt_data, "{} has no table '{}'", name, wanted);
  return *found;
}

std::vector<Signature> family_signatures(std::string_view provider_name) {
  std::vector<Signature> signatures;
  for (const Op op : provider(provider_name).ops()) {
    const auto& those = family_file(provider_name, op).signatures;
    signatures.insert(signatures.end(), those.begin(), those.end());
  }
  return signatures;
}

/// Locked before any thread reads: otherwise a fork could leave a static unfinished for ever that another
/// thread is initialising.
static ForkMutex reading_family_files(ForkLevel::files);

static std::string family_file_name(std::string_view provider_name, Op op) {
  return fmt::format("families/{}_{}.toml", provider_name, problem_space(op).operation);
}

FamilyFile family_rules(const ConfigSpace& space) {
  if (const FamilyFile* const declared = declared_family(space)) return *declared;
  const std::string file = family_file_name(space.provider, space.op);
  return parse_family_rules(embedded_file(file), file, space);
}

const FamilyFile& family_file(std::string_view provider_name, Op op) {
  const ConfigSpace& space = provider(provider_name).space(op);
  if (const FamilyFile* const declared = declared_family(space)) return *declared;
  const std::string file = family_file_name(provider_name, op);
  const std::vector<Rule> of_members = members_applicability_rules(space);  // reads files itself
  const std::lock_guard lock(reading_family_files);
  static std::map<const ConfigSpace*, FamilyFile> files;
  const auto known = files.find(&space);
  if (known != files.end()) return known->second;
  if (!find_word(file, embedded_file_names("families/"))) {
    fail(Errc::unsupported, "provider '{}' has no family for op '{}' ({} is not there)", provider_name,
         word(op), file);
  }
  FamilyFile& read = files.emplace(&space, parse_family(embedded_file(file), file, space)).first->second;
  read.rules.insert(read.rules.end(), of_members.begin(), of_members.end());
  return read;
}

RuleSource find_rules(std::string_view provider_name, Op op, std::string_view rules) {
  const FamilyFile& family = family_file(provider_name, op);
  const std::size_t end = rules.find(".toml");
  if (end == std::string_view::npos) {
    return {{std::shared_ptr<const FamilyFile>(), &family}, family.rule_set(rules).name};
  }
  const std::string path(rules.substr(0, end + 5));
  const std::string_view rest = rules.substr(path.size());
  const auto file = std::make_shared<const FamilyFile>(add_rule_sets(family, read_file(path), path));
  if (rest.empty()) return {file, file->rule_sets.back().name};
  if (!rest.starts_with(':'))
    fail(Errc::invalid_argument, "rules '{}': write FILE.toml or FILE.toml:SET", rules);
  return {file, file->rule_set(rest.substr(1)).name};
}

std::string rules_name(std::string_view rules) { return std::filesystem::path(rules).filename().string(); }

// ---- Rule sets that sample another one: deterministic subsets for tests and first steps.

namespace {

/// Position of a config among the configs of all signatures.
struct Place {
  std::size_t signature, row;
};

/// formula_values() of the configs of all signatures, in order.
std::vector<double> values_of(const FamilyFile& file, const std::string& formula, const Device& device,
                              const std::vector<SignatureConfigs>& all) {
  std::vector<double> values;
  for (const auto& [signature, configs] : all) {
    const auto column = formula_values(file, formula, device, signature, configs);
    values.insert(values.end(), column.begin(), column.end());
  }
  return values;
}

/// Positions by value; values are in the order of their first position.
std::vector<std::vector<std::size_t>> groups_of(const std::vector<double>& values) {
  std::map<double, std::size_t> places;
  std::vector<std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto [place, is_new] = places.try_emplace(values[i], groups.size());
    if (is_new) groups.emplace_back();
    groups[place->second].push_back(i);
  }
  return groups;
}

}  // namespace

std::vector<SignatureConfigs> sample_rule_set(const FamilyFile& file, const RuleSet& set,
                                              const Device& device,
                                              const std::vector<SignatureConfigs>& full) {
  const RuleSetSample& sample = set.sample;
  std::vector<Place> places;
  for (std::size_t signature = 0; signature < full.size(); ++signature) {
    for (std::size_t row = 0; row < full[signature].configs.size(); ++row) places.push_back({signature, row});
  }
  std::vector<bool> in(places.size());
  for (const auto& group : groups_of(values_of(file, sample.by, device, full))) {
    if (sample.every == 0 || group.size() < sample.every) in[group.front()] = true;
    if (sample.every == 0) continue;
    for (std::size_t i = sample.every - 1; i < group.size(); i += sample.every) in[group[i]] = true;
  }
  if (!sample.represent.empty()) {
    for (const auto& group : groups_of(values_of(file, sample.represent, device, full))) {
      if (std::ranges::none_of(group, [&](std::size_t i) { return in[i]; })) in[group.front()] = true;
    }
  }
  auto members = static_cast<std::size_t>(std::ranges::count(in, true));
  if (!sample.round.empty()) {
    const auto rounds = groups_of(values_of(file, sample.round, device, full));
    for (bool any = true; any && members < sample.least;) {
      any = false;
      for (const auto& group : rounds) {
        const auto next = std::ranges::find_if(group, [&](std::size_t i) { return !in[i]; });
        if (next == group.end() || members >= sample.least) continue;
        in[*next] = true;
        any = true;
        ++members;
      }
    }
  }
  std::vector<SignatureConfigs> kept;
  for (const auto& [signature, configs] : full) kept.push_back({signature, ConfigTable(configs.space())});
  for (std::size_t i = 0; i < places.size(); ++i) {
    const Place& place = places[i];
    if (in[i]) kept[place.signature].configs.push_back(full[place.signature].configs[place.row]);
  }
  return kept;
}

namespace {

/// The words of "a b"; empty for any other text.
std::pair<std::string_view, std::string_view> two_words(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  const std::size_t gap = text.find(' ');
  if (gap == std::string_view::npos || text.find(' ', gap + 1) != std::string_view::npos) return {};
  return {text.substr(0, gap), text.substr(gap + 1)};
}

struct MemberSet {
  std::string_view member, set;
};

std::vector<MemberSet> member_sets(std::string_view list, const FamilyFile& file) {
  std::vector<MemberSet> sets;
  for (std::string_view rest = list.substr(kMembersList.size()); !rest.empty();) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    const auto [member, set] = two_words(rest.substr(0, end));
    if (member.empty())
      fail(Errc::corrupt_data, "{}: list '{}': write members: PROVIDER SET, PROVIDER SET", file.name, list);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    sets.push_back({member, set});
  }
  return sets;
}

FamilyRequest member_request(const MemberSet& of, const Signature& signature, const Device& device) {
  return {.provider = std::string(of.member),
          .signature = signature,
          .device = device,
          .rules = std::string(of.set),
          .filter = {}};
}

}  // namespace

namespace {

constexpr GeneratedList kGeneratedLists[] = {{"curated-conv", kDirections, curated_conv}};

}  // namespace

ConfigTable generated_list(std::string_view name, const FamilyFile& file, const Signature& signature,
                           const Device& device) {
  if (name.starts_with(kMembersList)) return members_of(name, file, signature, device);
  for (const GeneratedList& list : kGeneratedLists) {
    if (list.name == name && std::ranges::find(list.ops, signature.op) != list.ops.end())
      return list.make(file, signature, device);
  }
  fail(Errc::corrupt_data, "{}: there is no list '{}' for op '{}'", file.name, name, word(signature.op));
}

ConfigTable members_of(std::string_view list, const FamilyFile& file, const Signature& signature,
                       const Device& device) {
  ConfigTable joint(*file.space);
  for (const MemberSet& of : member_sets(list, file)) {
    const ConfigTable own = enumerate_configs(family_file(of.member, signature.op),
                                              member_request(of, signature, device), nullptr);
    for (std::size_t i = 0; i < own.size(); ++i) joint.push_back(joint_config(*file.space, own[i]));
  }
  return joint;
}

WhyNot why_not_members(std::string_view list, const FamilyFile& file, const FamilyRequest& request,
                       const KernelConfig& config) {
  const KernelConfig own = member_config(config);
  const std::string_view member = own.space->provider;
  WhyNot answer;
  for (const MemberSet& of : member_sets(list, file)) {
    if (of.member != member) continue;
    answer = why_not(family_file(member, request.signature.op),
                     member_request(of, request.signature, request.device), own);
    if (answer.refusing.empty()) return answer;
  }
  if (answer.refusing.empty()) {
    answer.refusing.push_back({"rule set " + request.rules, RuleKind::worth, "",
                               fmt::format("the list '{}' has no set of {}", list, member)});
  }
  return answer;
}

std::vector<Rule> members_applicability_rules(const ConfigSpace& joint) {
  std::vector<Rule> rules;
  for (const ConfigSpace* const space : joint.members) {
    const std::string_view member = space->provider;
    for (Rule rule : family_file(member, joint.op).rules) {
      if (rule.kind != RuleKind::applicability) continue;
      rule.name = fmt::format("{}-{}", member, rule.name);
      rule.admits = fmt::format("c.by != '{}' or ({})", member, rule.admits);
      rules.push_back(std::move(rule));
    }
  }
  return rules;
}

Family family_of_configs(const Signature& signature, const Device& device, ConfigTable configs) {
  Family family{.provider = std::string(configs.space().provider),
                .signature = signature,
                .device = device,
                .rules = std::string(kMeasuredRules),
                .configs = std::move(configs),
                .traits = {},
                .applicability = {}};
  bool complete = true;
  for (std::size_t i = 0; i < family.configs.size(); ++i) {
    family.traits.push_back(provider(family.provider).traits(signature, family.configs[i], device));
    complete = complete && is_complete(family.configs[i]);
  }
  if (complete) {
    for (const Rule& rule : family_file(family.provider, signature.op).rules) {
      if (rule.kind == RuleKind::applicability) family.applicability.push_back(rule);
    }
  }
  return family;
}

}  // namespace kscout
