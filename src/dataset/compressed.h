#pragma once
/// \file
/// Reads text files that may be compressed.
///
///     const std::string text = read_text("gfx90a68.HIP.fdb.txt.bz2");
#include <filesystem>
#include <string>

namespace kscout {

/// The text of a file without a byte-order mark; bzip2, gzip and Zstandard by the file's first bytes. Throws
/// not_found, corrupt_data, and as decompressed() does.
std::string read_text(const std::filesystem::path& file);

}  // namespace kscout
