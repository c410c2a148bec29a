#pragma once
/// \file
/// Writes the index of a kernel library that somebody compiled by hand (docs/own_kernels.md).
///
///     const auto index = seal_library("mine.so", "mine", "auto");   // mine.kscout-library.json beside it
#include <filesystem>
#include <string>

namespace kscout {

/// Loads the library without opening its device and writes an index that lists all its kernels, each under
/// its own name, which must be a config's name. With `family`, a file that declares a provider, lists the
/// configs of its rule set `default` for the signatures that it states instead, each with the kernel whose
/// name begins the config's name, the longest of several. An index that exists is kept, with its rules and
/// kernels, and gets the checksum of the shared object as it is now. `name`: empty for the file's name
/// without suffix; `device`: a preset or "auto". Returns the index's path. Throws not_found, the errors of
/// load_library_file, corrupt_data for an index with errors, and invalid_argument for a kernel whose name no
/// provider can read, and for a name or device that an index states otherwise.
std::filesystem::path seal_library(const std::filesystem::path& library, const std::string& name = {},
                                   const std::string& device = "auto",
                                   const std::filesystem::path& family = {});

}  // namespace kscout
