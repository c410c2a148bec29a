#pragma once
/// \file
/// Combines cublaslt and cutlass in one config space (provider `nvidia`): one sweep measures both on a
/// problem, and one model chooses between them (docs/design/0005-joint-families.md).
///
///     const KernelConfig joint = nvidia_config(cublaslt_config);      // axis `by` names the member
///     const KernelConfig again = nvidia_member_config(joint);
///
/// The space has axis `by` and the axes of both members. An axis that both members have (tile_m, stages,
/// split_k, ...) occurs once; an axis that the config's member lacks is 0. Names and traits are the member's
/// own.
#include <span>
#include <string_view>

#include <kscout/provider.h>

namespace kscout {

const Provider& nvidia_provider();

/// The members, in the order of the words of axis `by`.
std::span<const std::string_view> nvidia_members() noexcept;

/// The joint config of a member's config. Throws invalid_argument for a config of another provider.
KernelConfig nvidia_config(const KernelConfig& member);
/// The member's config of a joint config; other configs are returned unchanged. Throws invalid_argument when
/// `by` is unknown.
KernelConfig nvidia_member_config(const KernelConfig& config);

}  // namespace kscout
