#include "dataset/compressed.h"

#include <optional>
#include <string_view>
#include <utility>

#include <arrow/buffer.h>
#include <arrow/io/compressed.h>
#include <arrow/io/memory.h>
#include <arrow/util/compression.h>

#include "core/fail.h"
#include "core/files.h"
#include "core/split.h"

namespace kscout {

namespace {

/// The compression besides gzip that a file's first bytes announce; nothing for plain text.
std::optional<arrow::Compression::type> compression_of(std::string_view bytes) {
  using namespace std::string_view_literals;
  if (bytes.starts_with("BZh"sv)) return arrow::Compression::BZ2;
  if (bytes.starts_with("\x28\xb5\x2f\xfd"sv)) return arrow::Compression::ZSTD;
  return std::nullopt;
}

template <class T>
T value_of(arrow::Result<T> result, const std::filesystem::path& file) {
  if (!result.ok())
    fail(Errc::corrupt_data, "{}: cannot be decompressed: {}", file.string(), result.status().message());
  return std::move(result).ValueUnsafe();
}

}  // namespace

std::string read_text(const std::filesystem::path& file) {
  std::string bytes = read_maybe_gzip(file);
  const std::size_t compressed = bytes.size();
  const auto compression = compression_of(bytes);
  if (!compression) return bytes;
  const auto codec = value_of(arrow::util::Codec::Create(*compression), file);
  const auto stream = value_of(
      arrow::io::CompressedInputStream::Make(codec.get(), std::make_shared<arrow::io::BufferReader>(
                                                              arrow::Buffer::FromString(std::move(bytes)))),
      file);
  constexpr std::int64_t kPiece = std::int64_t{4} << 20;
  return std::string(without_byte_order_mark(decompressed(compressed, file.string(), [&](std::string& text) {
    const auto piece = value_of(stream->Read(kPiece), file);
    text.append(reinterpret_cast<const char*>(piece->data()), static_cast<std::size_t>(piece->size()));
    return piece->size() != 0;
  })));
}

}  // namespace kscout
