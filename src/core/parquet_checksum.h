#pragma once
/// \file
/// Adds a checksum of all bytes to Parquet files and verifies it. Checksums of pages leave out the footer and
/// the headers of pages.
///
///     write(end_with_parquet_checksum(end, crc_of_what_was_written));   // 20 bytes longer
///     if (!check_parquet_checksum("a.parquet")) ...             // of an older version, or of another program
///
/// The checksum lies between the last page and the footer. Parquet readers find pages by their offsets, so
/// they skip it; a program that rewrites the file drops it. docs/formats/dataset.md describes the bytes.
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace kscout {

/// The last bytes of a Parquet file, which hold its whole footer, with the checksum before the footer.
/// `before` is the CRC-32 of all earlier bytes. Throws invalid_argument when `end` lacks a part of the
/// footer.
std::string end_with_parquet_checksum(std::string_view end, std::uint32_t before);

/// Returns whether the file holds a checksum. Throws corrupt_data when the bytes do not match it, not_found
/// or device_failure when the file cannot be read. Reads the whole file only where it holds a checksum.
bool check_parquet_checksum(const std::filesystem::path& file);

}  // namespace kscout
