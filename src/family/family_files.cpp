/// \file
/// The embedded family files, each read once, and what is looked up in one.
#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>

#include <kscout/conv_problem.h>
#include <kscout/provider.h>

#include "core/embedded.h"
#include "core/fail.h"
#include "core/files.h"
#include "core/names.h"
#include "family/family_file.h"
#include "family/members.h"

namespace kscout {

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

const FamilyFile& family_file(std::string_view provider_name, Op op) {
  static std::mutex mutex;
  static std::map<const ConfigSpace*, FamilyFile> files;
  const ConfigSpace& space = provider(provider_name).space(op);
  const std::string file = fmt::format("families/{}_{}.toml", provider_name, is_conv(op) ? "conv" : word(op));
  const std::vector<Rule> of_members = members_serve_rules(provider_name, op);  // reads files itself
  const std::lock_guard lock(mutex);
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

}  // namespace kscout
