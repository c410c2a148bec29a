#include "forest/gzip.h"

#include <algorithm>
#include <memory>

#include <zlib.h>

#include "core/fail.h"
#include "core/files.h"

namespace kscout {

std::string gunzip(std::string_view bytes, std::string_view source) {
  z_stream stream{};
  if (inflateInit2(&stream, 15 + 16) != Z_OK) fail(Errc::device_failure, "zlib cannot start");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> guard(&stream, inflateEnd);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  std::string out;
  int status = Z_OK;
  while (status == Z_OK) {
    const std::size_t filled = out.size();
    if (filled >= kMostFileBytes) fail(Errc::corrupt_data, "{}: more than 1 GiB when decompressed", source);
    out.resize(std::min(kMostFileBytes, std::max<std::size_t>(filled * 2, 1 << 16)));
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + filled);
    stream.avail_out = static_cast<uInt>(out.size() - filled);
    status = inflate(&stream, Z_NO_FLUSH);
    out.resize(out.size() - stream.avail_out);
    if (status == Z_BUF_ERROR) break;  // the input ended early
  }
  if (status != Z_STREAM_END || stream.avail_in != 0) {
    fail(Errc::corrupt_data, "{}: damaged or cut gzip data", source);
  }
  return out;
}

std::string read_maybe_gzip(const std::filesystem::path& file) {
  std::string bytes = read_file(file);
  return bytes.starts_with("\x1f\x8b") ? gunzip(bytes, file.string()) : bytes;
}

std::string gzip(std::string_view bytes) {
  z_stream stream{};
  if (deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY) != Z_OK) {
    fail(Errc::device_failure, "zlib cannot start");
  }
  const std::unique_ptr<z_stream, int (*)(z_stream*)> guard(&stream, deflateEnd);
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) fail(Errc::device_failure, "zlib cannot compress");
  out.resize(out.size() - stream.avail_out);
  return out;
}

}  // namespace kscout
