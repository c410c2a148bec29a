#include "forest/bytes.h"

#include <cerrno>
#include <cstring>
#include <memory>

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include "core/fail.h"
#include "forest/forest.h"

namespace kscout {

namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 30;

/// Closes a file descriptor.
struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
};

[[noreturn]] void fail_io(std::string_view what, const std::filesystem::path& file) {
  const int code = errno;
  fail(code == ENOENT ? Errc::not_found : Errc::device_failure, "{}: cannot {}: {}", file.string(), what,
       std::strerror(code));
}

std::string gunzip(std::string_view bytes, const std::filesystem::path& file) {
  z_stream stream{};
  if (inflateInit2(&stream, 15 + 16) != Z_OK) fail(Errc::device_failure, "zlib cannot start");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> guard(&stream, inflateEnd);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  std::string out;
  int status = Z_OK;
  while (status == Z_OK) {
    const std::size_t filled = out.size();
    if (filled >= kMostBytes)
      fail(Errc::corrupt_data, "{}: more than 1 GiB when decompressed", file.string());
    out.resize(std::min(kMostBytes, std::max<std::size_t>(filled * 2, 1 << 16)));
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + filled);
    stream.avail_out = static_cast<uInt>(out.size() - filled);
    status = inflate(&stream, Z_NO_FLUSH);
    out.resize(out.size() - stream.avail_out);
    if (status == Z_BUF_ERROR) break;  // the input ended early
  }
  if (status != Z_STREAM_END || stream.avail_in != 0) {
    fail(Errc::corrupt_data, "{}: damaged or cut gzip data", file.string());
  }
  return out;
}

}  // namespace

std::string read_file(const std::filesystem::path& file) {
  const Descriptor in{open(file.c_str(), O_RDONLY | O_CLOEXEC)};
  if (in.fd < 0) fail_io("open", file);
  std::string bytes;
  for (;;) {
    const std::size_t filled = bytes.size();
    if (filled > kMostBytes) fail(Errc::corrupt_data, "{}: larger than 1 GiB", file.string());
    bytes.resize(std::max<std::size_t>(filled * 2, 1 << 16));
    const ssize_t got = read(in.fd, bytes.data() + filled, bytes.size() - filled);
    bytes.resize(filled + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && errno != EINTR) fail_io("read", file);
    if (got == 0) return bytes;
  }
}

std::string read_maybe_gzip(const std::filesystem::path& file) {
  std::string bytes = read_file(file);
  return bytes.starts_with("\x1f\x8b") ? gunzip(bytes, file) : bytes;
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

void write_file_atomically(const std::filesystem::path& file, std::string_view bytes) {
  const std::filesystem::path part = file.string() + fmt::format(".{}.part", getpid());
  {
    const Descriptor out{open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)};
    if (out.fd < 0) fail_io("create", part);
    std::size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t put = write(out.fd, bytes.data() + done, bytes.size() - done);
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) {
        const int code = errno;
        unlink(part.c_str());
        errno = code;
        fail_io("write", part);
      }
      done += static_cast<std::size_t>(put);
    }
    if (fsync(out.fd) != 0) fail_io("flush", part);
  }
  if (rename(part.c_str(), file.c_str()) != 0) fail_io("rename", part);
}

LightgbmModel read_lightgbm(const std::filesystem::path& file) {
  try {
    return parse_lightgbm(read_maybe_gzip(file));
  } catch (const Error& error) {
    const std::string_view what = error.what();
    if (what.find(file.string()) != std::string_view::npos) throw;
    fail(error.code(), "{}: {}", file.string(), what);
  }
}

}  // namespace kscout
