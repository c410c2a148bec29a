#pragma once
/// \file
/// Compresses and decompresses gzip.
#include <filesystem>
#include <string>
#include <string_view>

namespace kscout {

/// read_file, then gunzip when the bytes start with the gzip mark. Throws corrupt_data for damaged gzip and
/// for more than kMostFileBytes of output.
std::string read_maybe_gzip(const std::filesystem::path& file);

/// Decompresses gzip; `source` names it in errors. Throws corrupt_data for damaged data and for more than
/// kMostFileBytes of output.
std::string gunzip(std::string_view bytes, std::string_view source);

/// gzip with level 9 and no time stamp: equal input gives equal bytes.
std::string gzip(std::string_view bytes);

}  // namespace kscout
