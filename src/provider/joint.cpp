#include "provider/joint.h"

#include <algorithm>

#include "core/fail.h"
#include "core/names.h"

namespace kscout {

JointProvider::JointProvider(std::string name, std::string help, std::vector<Op> ops,
                             std::vector<std::string> members)
    : name_(std::move(name)), help_(std::move(help)), ops_(std::move(ops)) {
  if (members.size() < 2)
    fail(Errc::invalid_argument, "{}: {} members; a joint family has two or more", name_, members.size());
  for (const std::string& member : members) {
    const Provider& of = provider(member);
    if (joint_provider(member))
      fail(Errc::invalid_argument, "{}: member {} is a joint family; name its members instead", name_,
           member);
    if (std::ranges::find(members_, &of) != members_.end())
      fail(Errc::invalid_argument, "{}: member {} is given twice", name_, member);
    members_.push_back(&of);
    words_.push_back(of.name());
  }
  for (const Op op : ops_) add_space(op);
}

void JointProvider::add_space(Op op) {
  Space& made = spaces_.emplace_back();
  made.axes.push_back({"by", "1", "whose kernel it is", words_});
  for (const Provider* const member : members_) {
    made.members.push_back(&member->space(op));
    for (const Axis& axis : made.members.back()->axes) {
      const auto same = std::ranges::find(made.axes, axis.name, &Axis::name);
      if (same == made.axes.end()) {
        made.axes.push_back(axis);
      } else if (!std::ranges::equal(same->words, axis.words)) {
        fail(Errc::invalid_argument,
             "{}: axis '{}' of {} has other words than that of a member before it; rename it", name_,
             axis.name, member->name());
      }
    }
  }
  if (made.axes.size() > kMaxAxes)
    fail(Errc::invalid_argument, "{}: its members have {} axes together; the limit is {}", name_,
         made.axes.size(), kMaxAxes);
  made.space = {name_, op, made.axes, made.members};
}

bool JointProvider::runs_on(const Device& device) const noexcept {
  return std::ranges::all_of(members_, [&](const Provider* one) { return one->runs_on(device); });
}

bool JointProvider::library_decides() const noexcept {
  return std::ranges::any_of(members_, [](const Provider* one) { return one->library_decides(); });
}

int JointProvider::host_threads(const KernelConfig& config) const noexcept {
  if (config[0] < 0 || static_cast<std::size_t>(config[0]) >= members_.size()) return 0;
  return members_[static_cast<std::size_t>(config[0])]->host_threads(member_config(config));
}

const ConfigSpace& JointProvider::space(Op op) const {
  const auto found = std::ranges::find(spaces_, op, [](const Space& one) { return one.space.op; });
  if (found != spaces_.end()) return found->space;
  std::vector<std::string_view> have;
  for (const Op one : ops_) have.push_back(word(one));
  fail(Errc::unsupported, "{} has no kernels for {}; it has {}", name_, word(op), fmt::join(have, ", "));
}

std::string JointProvider::print(const Signature& signature, const KernelConfig& config) const {
  return config_name(signature, checked_member(config));
}

NamedConfig JointProvider::parse(std::string_view text) const {
  const NamedConfig named = parse_config_name(text);
  return {named.signature, joint_config(space(named.signature.op), named.config)};
}

Traits JointProvider::traits(const Signature& signature, const KernelConfig& config,
                             const Device& device) const {
  const KernelConfig member = checked_member(config);
  return provider(member.space->provider).traits(signature, member, device);
}

KernelConfig JointProvider::canonical(const KernelConfig& config) const {
  const KernelConfig member = checked_member(config);
  return joint_config(*config.space, provider(member.space->provider).canonical(member));
}

std::optional<KernelConfig> JointProvider::own(const KernelConfig& config) const {
  if (!config.space) return std::nullopt;
  for (const Space& one : spaces_) {
    if (config.space == &one.space) return config;
    if (std::ranges::find(one.members, config.space) != one.members.end())
      return joint_config(one.space, config);
  }
  return std::nullopt;
}

KernelConfig JointProvider::checked_member(const KernelConfig& config) const {
  if (!config.space || &space(config.space->op) != config.space)
    fail(Errc::invalid_argument, "a config of {} is not one of {}",
         config.space ? config.space->provider : "no space", name_);
  return member_config(config);
}

KernelConfig joint_config(const ConfigSpace& joint, const KernelConfig& member) {
  const auto by = std::ranges::find(joint.members, member.space);
  if (!member.space || by == joint.members.end())
    fail(Errc::invalid_argument, "a config of {} is not one of {}'s ({})",
         member.space ? member.space->provider : "no space", joint.provider,
         fmt::join(joint.axes[0].words, ", "));
  KernelConfig config(joint);
  for (std::size_t i = 0; i < joint.axes.size(); ++i) config[i] = 0;
  config[0] = static_cast<std::int32_t>(by - joint.members.begin());
  for (std::size_t i = 0; i < member.space->axes.size(); ++i)
    config.set(member.space->axes[i].name, member[i]);
  return config;
}

KernelConfig member_config(const KernelConfig& config) {
  if (!config.space || config.space->members.empty()) return config;
  const ConfigSpace& joint = *config.space;
  axis_value_text(joint.axes[0], config[0]);  // throws for a value without a word
  if (config[0] == KernelConfig::unknown)
    fail(Errc::invalid_argument, "{} {}: axis by is unknown", joint.provider, word(joint.op));
  KernelConfig member(*joint.members[static_cast<std::size_t>(config[0])]);
  for (std::size_t i = 0; i < member.space->axes.size(); ++i) member[i] = config[member.space->axes[i].name];
  return member;
}

bool is_absent_in_member(const KernelConfig& config, std::size_t axis) noexcept {
  if (!config.space || axis == 0) return false;
  const auto& members = config.space->members;
  if (config[0] < 0 || static_cast<std::size_t>(config[0]) >= members.size()) return false;
  const auto& own = members[static_cast<std::size_t>(config[0])]->axes;
  return std::ranges::find(own, config.space->axes[axis].name, &Axis::name) == own.end();
}

}  // namespace kscout
