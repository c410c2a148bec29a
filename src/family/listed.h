#pragma once
/// \file
/// Rule sets that a program lists, because tables that refer to each other decide and not a product of axes.
///
///     ConfigTable configs = listed_configs("curated-conv", file, signature, device);
#include <string_view>

#include "family/family_file.h"

namespace kscout {

/// What the list called `name` (a rule set's `from`) holds for a signature and device, in its order, before
/// any rule is asked. Throws corrupt_data for an unknown list.
ConfigTable listed_configs(std::string_view name, const FamilyFile& file, const Signature& signature,
                           const Device& device);

/// CK Tile's curated grouped convolutions, from families/ck_tile_conv_lists.toml.
ConfigTable curated_conv(const FamilyFile& file, const Signature& signature, const Device& device);

}  // namespace kscout
