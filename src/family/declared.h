#pragma once
/// \file
/// Declares a provider in a file: axes, names, traits, rules and rule sets of kernels that the program does
/// not have itself. Grammar: docs/formats/family.md.
///
///     declare_provider(read_file("mine.kscout-family.toml"), "mine.kscout-family.toml");
///     const Provider& mine = provider("mine");
#include <memory>
#include <string>
#include <string_view>

#include <kscout/provider.h>

#include "family/family_file.h"

namespace kscout {

/// Endings of the files that KSCOUT_FAMILIES may hold in its folders.
inline constexpr std::string_view kFamilySuffix = ".kscout-family.toml";

/// The provider that a text declares, which provider() does not find. Throws corrupt_data with `file` and
/// line.
std::unique_ptr<const Provider> read_declaration(std::string_view toml, std::string_view file);

/// The declaration of a declared provider, as it was read; empty for the providers of the program. Before
/// that of a joint family stand those of its members, each followed by a form feed.
std::string declaration_of(std::string_view provider);

/// The family that the declaration of the space's provider holds; null for the providers of the program.
const FamilyFile* declared_family(const ConfigSpace& space) noexcept;

/// Declares the provider unless one of its name is known: for models and datasets, which carry the
/// declaration that they were made with.
void declare_if_unknown(std::string_view provider, std::string_view toml, std::string_view file);

}  // namespace kscout
