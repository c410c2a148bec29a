#pragma once
/// \file
/// Several providers as one (docs/design/0005-joint-families.md): one sweep measures the kernels of all
/// members on a problem, and one model chooses among them.
///
///     const ConfigSpace& joint = provider("nvidia").space(Op::gemm);    // members: cublaslt, cutlass
///     const KernelConfig config = joint_config(joint, cublaslt_config); // axis `by` names the member
///     const KernelConfig again = member_config(config);
///
/// The space of a joint provider has axis `by` and the axes of all members. An axis that several members have
/// (tile_m, stages, split_k, ...) occurs once; an axis that a config's member lacks is 0. Names, traits and
/// rules are the member's own.
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <kscout/provider.h>

namespace kscout {

class JointProvider : public Provider {
 public:
  /// Throws invalid_argument for fewer than two members, a member twice, one that is joint itself or lacks an
  /// operation, an axis with other words in another member, and more than kMaxAxes axes.
  JointProvider(std::string name, std::string help, std::vector<Op> ops, std::vector<std::string> members);

  std::string_view name() const noexcept override { return name_; }
  std::string_view help() const noexcept override { return help_; }
  std::span<const Op> ops() const noexcept override { return ops_; }
  bool runs_on(const Device& device) const noexcept override;
  bool built_in() const noexcept override { return true; }
  bool library_decides() const noexcept override;
  int host_threads(const KernelConfig& config) const noexcept override;
  const ConfigSpace& space(Op op) const override;
  std::string print(const Signature& signature, const KernelConfig& config) const override;
  NamedConfig parse(std::string_view name) const override;
  Traits traits(const Signature& signature, const KernelConfig& config, const Device& device) const override;
  KernelConfig canonical(const KernelConfig& config) const override;
  std::optional<KernelConfig> own(const KernelConfig& config) const override;

  /// In the order of the words of axis `by`.
  std::span<const Provider* const> members() const noexcept { return members_; }

 private:
  struct Space {
    ConfigSpace space;
    std::vector<Axis> axes;
    std::vector<const ConfigSpace*> members;
  };
  void add_space(Op op);
  KernelConfig checked_member(const KernelConfig& config) const;

  std::string name_, help_;
  std::vector<Op> ops_;
  std::vector<const Provider*> members_;
  std::vector<std::string_view> words_;
  std::deque<Space> spaces_;
};

/// The joint config of a member's config. Throws invalid_argument for a config of another provider.
KernelConfig joint_config(const ConfigSpace& joint, const KernelConfig& member);
/// The member's config of a joint config; other configs are returned unchanged. Throws invalid_argument when
/// `by` is unknown.
KernelConfig member_config(const KernelConfig& config);
/// Whether the member of a joint config has no such axis, which is then 0. A stored table may lack columns of
/// axes that came with a later member of the family. False for configs of other providers.
bool is_absent_in_member(const KernelConfig& config, std::size_t axis) noexcept;

/// The joint provider of this name; null for others and unknown names.
const JointProvider* joint_provider(std::string_view name) noexcept;

}  // namespace kscout
