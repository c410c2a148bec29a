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

ConfigTable members_of(std::string_view list, const FamilyFile& file, const Signature& signature,
                       const Device& device) {
  ConfigTable joint(*file.space);
  for (const MemberSet& of : member_sets(list, file)) {
    const ConfigTable own = enumerate_configs(family_file(of.member, signature.op),
                                              member_request(of, signature, device), nullptr);
    for (std::size_t i = 0; i < own.size(); ++i) joint.push_back(nvidia_config(own[i]));
  }
  return joint;
}

WhyNot why_not_members(std::string_view list, const FamilyFile& file, const FamilyRequest& request,
                       const KernelConfig& config) {
  const KernelConfig own = nvidia_member_config(config);
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
