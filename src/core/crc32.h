#pragma once
/// \file
/// Computes the CRC-32 of zlib and PNG.
///
///     std::uint32_t sum = crc32_of(header);
///     sum = crc32_of(body, sum);              // that of header and body
#include <cstdint>
#include <string_view>

namespace kscout {

/// `before`: the CRC of what stands before the bytes.
std::uint32_t crc32_of(std::string_view bytes, std::uint32_t before = 0) noexcept;

}  // namespace kscout
