#pragma once
/// \file
/// Whole files in memory, gzip undone and made, written atomically.
#include <filesystem>
#include <string>
#include <string_view>

namespace kscout {

/// The bytes of a file. Throws not_found when it is absent, device_failure when it cannot be read.
std::string read_file(const std::filesystem::path& file);

/// read_file, then gunzip when the bytes start with the gzip mark. Throws corrupt_data for damaged gzip and
/// for more than 1 GiB of output.
std::string read_maybe_gzip(const std::filesystem::path& file);

/// gzip with level 9 and no time stamp: equal input gives equal bytes.
std::string gzip(std::string_view bytes);

/// Writes beside the target, flushes, then renames: readers see the old file or the new one. Throws
/// device_failure.
void write_file_atomically(const std::filesystem::path& file, std::string_view bytes);

}  // namespace kscout
