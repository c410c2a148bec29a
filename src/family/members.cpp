#include "family/members.h"

#include "core/fail.h"
#include "provider/nvidia/nvidia.h"

namespace kscout {

namespace {

/// The words of "a b", or none.
std::pair<std::string_view, std::string_view> two_words(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  const std::size_t gap = text.find(' ');
  if (gap == std::string_view::npos || text.find(' ', gap + 1) != std::string_view::npos) return {};
  return {text.substr(0, gap), text.substr(gap + 1)};
}

}  // namespace

ConfigTable members_of(std::string_view list, const FamilyFile& file, const Signature& signature,
                       const Device& device) {
  ConfigTable joint(*file.space);
  for (std::string_view rest = list.substr(kMembersList.size()); !rest.empty();) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    const auto [member, set] = two_words(rest.substr(0, end));
    if (member.empty())
      fail(Errc::corrupt_data, "{}: list '{}': write members: PROVIDER SET, PROVIDER SET", file.name, list);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const ConfigTable own = enumerate_configs(family_file(member, signature.op),
                                              {.provider = std::string(member),
                                               .signature = signature,
                                               .device = device,
                                               .rules = std::string(set),
                                               .filter = {}},
                                              nullptr);
    for (std::size_t i = 0; i < own.size(); ++i) joint.push_back(nvidia_config(own[i]));
  }
  return joint;
}

std::vector<Rule> members_serve_rules(std::string_view provider, Op op) {
  std::vector<Rule> rules;
  if (provider != nvidia_provider().name()) return rules;
  for (const std::string_view member : nvidia_members()) {
    for (Rule rule : family_file(member, op).rules) {
      if (rule.kind != RuleKind::serves) continue;
      rule.name = fmt::format("{}-{}", member, rule.name);
      rule.admits = fmt::format("c.by != '{}' or ({})", member, rule.admits);
      rules.push_back(std::move(rule));
    }
  }
  return rules;
}

}  // namespace kscout
