#include "provider/nvidia/nvidia.h"

#include <algorithm>

#include "core/fail.h"
#include "core/names.h"
#include "provider/nvidia_gemm.h"

namespace kscout {

namespace {

constexpr std::string_view kMembers[] = {"cublaslt", "cutlass"};

/// Axis `by`, then every axis of the members, each name once.
const std::vector<Axis>& axes() {
  static const std::vector<Axis> joint = [] {
    std::vector<Axis> all{{"by", "1", "whose kernel it is", kMembers}};
    for (const std::string_view member : kMembers) {
      for (const Axis& axis : provider(member).space(Op::gemm).axes) {
        const auto same = std::ranges::find(all, axis.name, &Axis::name);
        if (same == all.end()) {
          all.push_back(axis);
        } else if (!same->words.empty() || !axis.words.empty()) {
          fail(Errc::corrupt_data, "axis '{}' has words of its own in {}", axis.name, member);
        }
      }
    }
    return all;
  }();
  return joint;
}

const ConfigSpace& joint_space() {
  static const ConfigSpace space{"nvidia", Op::gemm, axes()};
  return space;
}

class NvidiaProvider final : public NvidiaGemmProvider {
 public:
  NvidiaProvider() : NvidiaGemmProvider(joint_space()) {}
  std::string_view help() const noexcept override {
    return "cublaslt and cutlass as one family, run by backend cuda";
  }
  bool built_in() const noexcept override { return true; }
  std::string print(const Signature& signature, const KernelConfig& config) const override {
    return config_name(signature, checked_member(config));
  }
  NamedConfig parse(std::string_view name) const override {
    const NamedConfig named = parse_config_name(name);
    return {named.signature, nvidia_config(named.config)};
  }
  Traits traits(const Signature& signature, const KernelConfig& config, const Device& device) const override {
    const KernelConfig member = checked_member(config);
    return provider(member.space->provider).traits(signature, member, device);
  }
  std::optional<KernelConfig> own(const KernelConfig& config) const override {
    if (!config.space || !find_word(config.space->provider, kMembers)) return Provider::own(config);
    return nvidia_config(config);
  }

 private:
  static KernelConfig checked_member(const KernelConfig& config) {
    if (config.space != &joint_space()) {
      fail(Errc::invalid_argument, "a config of {} is not one of nvidia gemm",
           config.space ? config.space->provider : "no space");
    }
    return nvidia_member_config(config);
  }
};

}  // namespace

const Provider& nvidia_provider() {
  static const NvidiaProvider provider;
  return provider;
}

std::span<const std::string_view> nvidia_members() noexcept { return kMembers; }

KernelConfig nvidia_config(const KernelConfig& member) {
  const std::string_view of = member.space ? member.space->provider : "no space";
  const auto by = find_word(of, kMembers);
  if (!by)
    fail(Errc::invalid_argument, "a config of {} is not one of nvidia's ({})", of, fmt::join(kMembers, ", "));
  KernelConfig joint(joint_space());
  for (std::size_t i = 0; i < joint_space().axes.size(); ++i) joint[i] = 0;
  joint[0] = static_cast<std::int32_t>(*by);
  for (std::size_t i = 0; i < member.space->axes.size(); ++i)
    joint.set(member.space->axes[i].name, member[i]);
  return joint;
}

KernelConfig nvidia_member_config(const KernelConfig& config) {
  if (config.space != &joint_space()) return config;
  axis_value_text(joint_space().axes[0], config[0]);  // throws for a value without a word
  if (config[0] == KernelConfig::unknown) fail(Errc::invalid_argument, "nvidia gemm: axis by is unknown");
  KernelConfig member(provider(kMembers[config[0]]).space(Op::gemm));
  for (std::size_t i = 0; i < member.space->axes.size(); ++i) member[i] = config[member.space->axes[i].name];
  return member;
}

}  // namespace kscout
