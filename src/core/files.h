#pragma once
/// \file
/// Whole files: read into memory, and written so that a reader sees all or nothing.
#include <filesystem>
#include <string>
#include <string_view>

namespace kscout {

/// Larger files are refused.
inline constexpr std::size_t kMostFileBytes = std::size_t{1} << 30;

/// Nothing of that name is there (a file that is there but may not be seen is not absent).
bool is_absent(const std::filesystem::path& file) noexcept;

/// The bytes of a file. Throws not_found when it is absent, device_failure when it cannot be read,
/// corrupt_data above kMostFileBytes.
std::string read_file(const std::filesystem::path& file);

/// Writes beside the target, flushes, then renames: readers see the old file or the new one. Throws
/// device_failure, not_found when the folder is absent.
void write_file_atomically(const std::filesystem::path& file, std::string_view bytes);

/// The same, but keeps a file that is there already: of several that create it at once, one wins.
void create_file_atomically(const std::filesystem::path& file, std::string_view bytes);

}  // namespace kscout
