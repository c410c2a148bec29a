#pragma once
/// \file
/// Providers that a file declares beside those of the program (src/family/declared.cpp reads the files).
///
///     add_provider(std::make_unique<DeclaredProvider>(toml, file));   // found by provider() from then on
///     if (const Provider* one = declared_provider("mine")) ...
#include <memory>
#include <span>
#include <string_view>

#include <kscout/provider.h>

namespace kscout {

/// Throws invalid_argument for a name that would make kernels' names read like those of the program's own
/// providers.
void check_provider_name(std::string_view name);

/// Keeps the provider until the process ends, because configs point at its spaces. Its name must be new.
/// Threads may look providers up meanwhile.
const Provider& add_provider(std::unique_ptr<const Provider> provider);
/// Providers that a program links in addition: it defines this function. None otherwise.
std::span<const Provider* const> further_providers() noexcept;

/// The declared provider of this name; null for those of the program, and for unknown names.
const Provider* declared_provider(std::string_view name) noexcept;

/// Declares what the files of KSCOUT_FAMILIES declare; once per process, at the first name that is not known.
void declare_providers_of_environment();

}  // namespace kscout
