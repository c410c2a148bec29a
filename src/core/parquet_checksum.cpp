#include "core/parquet_checksum.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <optional>

#include "core/fail.h"
#include "core/files.h"
#include "core/hash.h"

namespace kscout {

namespace {

/// A Parquet file ends with the footer, the footer's length (32 bits, little-endian) and "PAR1".
constexpr std::size_t kParquetEnd = 8;
constexpr std::string_view kParquetMark = "PAR1";
/// This mark, then the CRC-32 of all other bytes of the file (little-endian).
constexpr std::string_view kChecksumMark = "kscout checksum\n";
constexpr std::size_t kChecksumBytes = kChecksumMark.size() + sizeof(std::uint32_t);

std::uint32_t little_endian(std::string_view bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = bytes.size(); i > 0; --i)
    value = value << 8 | static_cast<unsigned char>(bytes[i - 1]);
  return value;
}

/// Where the footer begins, from the last 8 bytes of a file of `size` bytes; nothing when it is no Parquet
/// file.
std::optional<std::size_t> footer_begin(std::string_view end, std::size_t size) {
  if (end.size() != kParquetEnd || !end.ends_with(kParquetMark)) return std::nullopt;
  const std::size_t length = little_endian(end.substr(0, 4));
  if (length + kParquetEnd > size) return std::nullopt;
  return size - kParquetEnd - length;
}

/// Reads parts of a file.
class PartReader {
 public:
  explicit PartReader(const std::filesystem::path& file) : file_(file), stream_(file, std::ios::binary) {
    if (stream_) return;
    const int error = errno;
    fail(is_absent(file) ? Errc::not_found : Errc::device_failure, "{}: {}", file.string(),
         std::strerror(error));
  }
  std::string read(std::size_t begin, std::size_t size) {
    std::string bytes(size, '\0');
    stream_.seekg(static_cast<std::streamoff>(begin));
    if (!stream_.read(bytes.data(), static_cast<std::streamsize>(size)))
      fail(Errc::device_failure, "{}: cannot be read", file_.string());
    return bytes;
  }

 private:
  const std::filesystem::path& file_;
  std::ifstream stream_;
};

/// The CRC-32 of the bytes from `begin` to `end`, continued from `before`.
std::uint32_t crc32_of_part(PartReader& file, std::size_t begin, std::size_t end, std::uint32_t before) {
  constexpr std::size_t kPart = 1 << 20;
  for (; begin < end; begin += std::min(kPart, end - begin))
    before = crc32_of(file.read(begin, std::min(kPart, end - begin)), before);
  return before;
}

}  // namespace

std::string end_with_parquet_checksum(std::string_view end, std::uint32_t before) {
  const auto footer = footer_begin(end.substr(end.size() - std::min(end.size(), kParquetEnd)), end.size());
  if (!footer) fail(Errc::invalid_argument, "a checksum needs a whole Parquet file");
  std::string bytes(end.substr(0, *footer));
  bytes += kChecksumMark;
  const std::uint32_t checksum = crc32_of(end, before);
  for (std::size_t i = 0; i < sizeof(checksum); ++i) bytes += static_cast<char>(checksum >> (8 * i) & 0xff);
  bytes += end.substr(*footer);
  return bytes;
}

bool check_parquet_checksum(const std::filesystem::path& file) {
  std::error_code not_regular;
  const std::size_t size = std::filesystem::file_size(file, not_regular);
  if (not_regular && !is_absent(file)) return false;
  PartReader parts(file);
  if (size < kParquetEnd) return false;
  const auto footer = footer_begin(parts.read(size - kParquetEnd, kParquetEnd), size);
  if (!footer || *footer < kChecksumBytes) return false;
  const std::size_t begin = *footer - kChecksumBytes;
  const std::string found = parts.read(begin, kChecksumBytes);
  if (!found.starts_with(kChecksumMark)) return false;
  const std::uint32_t checksum = crc32_of_part(parts, *footer, size, crc32_of_part(parts, 0, begin, 0));
  if (checksum == little_endian(std::string_view(found).substr(kChecksumMark.size()))) return true;
  fail(Errc::corrupt_data, "{}: is damaged: its bytes do not match its checksum; restore it or measure again",
       file.string());
}

}  // namespace kscout
