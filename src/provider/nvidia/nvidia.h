#pragma once
/// \file
/// Provider `nvidia`: cublaslt and cutlass in one config space, so that one sweep measures both on a problem
/// and one model chooses between them (docs/design/0005-joint-families.md).
///
///     const KernelConfig joint = nvidia_config(cublaslt_config);      // axis `by` says whose it is
///     const KernelConfig again = nvidia_member_config(joint);
///
/// The space has axis `by` and the axes of both; what both have (tile_m, stages, split_k, ...) is one axis,
/// and an axis that a member lacks is 0. Names and traits are the member's own.
#include <span>
#include <string_view>

#include <kscout/provider.h>

namespace kscout {

const Provider& nvidia_provider();

/// In the order of the words of axis `by`.
std::span<const std::string_view> nvidia_members() noexcept;

/// The joint config of a member's. Throws invalid_argument for a config of another provider.
KernelConfig nvidia_config(const KernelConfig& member);
/// The member's config; one that is no joint config is handed back as it is. Throws invalid_argument when
/// `by` is unknown.
KernelConfig nvidia_member_config(const KernelConfig& config);

}  // namespace kscout
