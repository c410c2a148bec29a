#pragma once
/// \file
/// Where the symbolic links of a path lead, and where temporary files go; the functions are in files.cpp.
///
///     check_folder(resolve_links("latest.json").parent_path());
#include <filesystem>
#include <optional>

namespace kscout {

/// The path behind all links; the last one may name a file or a folder that is not there yet. A name of an
/// open descriptor (/dev/fd/3, /proc/self/fd/3) stays as it is. Throws device_failure for a ring of links.
std::filesystem::path resolve_links(std::filesystem::path file);

/// TMPDIR, else /tmp. Throws device_failure when that is no folder.
std::filesystem::path temporary_folder();

/// The descriptor of this process that a path of resolve_links names. Throws invalid_argument for a
/// descriptor of another process.
std::optional<int> named_descriptor(const std::filesystem::path& file);

}  // namespace kscout
