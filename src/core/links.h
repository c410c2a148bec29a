#pragma once
/// \file
/// Resolves symbolic links, and finds the folder of temporary files; the functions are in files.cpp.
///
///     check_folder(resolve_links("latest.json").parent_path());
#include <filesystem>
#include <optional>

namespace kscout {

/// The path without links; its last part may name a file or folder that does not exist yet. The name of an
/// open descriptor (/dev/fd/3, /proc/self/fd/3) stays unchanged. Throws device_failure for a cycle of links.
std::filesystem::path resolve_links(std::filesystem::path file);

/// TMPDIR, else /tmp. Throws device_failure when that is not a folder.
std::filesystem::path temporary_folder();

/// The descriptor of this process that a result of resolve_links names. Throws invalid_argument for a
/// descriptor of another process.
std::optional<int> named_descriptor(const std::filesystem::path& file);

}  // namespace kscout
