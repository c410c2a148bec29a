#include "core/files.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <system_error>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <zlib.h>

#include "core/fail.h"
#include "core/held_signals.h"
#include "core/links.h"
#include "core/names.h"
#include "core/owners.h"
#include "core/part_name.h"
#include "core/split.h"

namespace kscout {

namespace {

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

/// The file's size as the system reports it: 0 for pipes and for files that are generated while they are
/// read.
std::size_t known_bytes(int fd) {
  struct stat about {};
  if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode)) return 0;
  return std::min(static_cast<std::size_t>(about.st_size), kMaxFileBytes);
}

/// Whether reading might never end, as with /dev/zero and /dev/full. Terminals and /dev/null end.
bool is_device_without_end(int fd) {
  struct stat about {};
  if (fstat(fd, &about) != 0) return false;
  constexpr unsigned kMemory = 1, kNull = 3;  // Linux, admin-guide/devices.txt
  if (S_ISCHR(about.st_mode)) return about.st_rdev != makedev(kMemory, kNull) && isatty(fd) == 0;
  return S_ISBLK(about.st_mode);
}

/// /proc/PID/fd and /proc/PID/task/TID/fd contain a link for each open descriptor.
bool is_descriptor_folder(const std::filesystem::path& folder) {
  return folder.filename() == "fd" && folder.string().starts_with("/proc/");
}

/// The name NAME.<six random letters>.part (core/part_name.h) of a new file or folder, for which `make`
/// returns no -1. Others may write to the folder: the name is none that they can foresee, and `make` takes no
/// file or link of theirs.
template <class Make>
std::string make_part(const std::filesystem::path& target, const Make& make) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  constexpr int kTries = 100;
  for (int tries = 0;; ++tries) {
    std::array<unsigned char, kPartLetters> random;
    if (getentropy(random.data(), random.size()) != 0) fail_io("create", target);
    std::string name = target.string() + '.';
    for (const unsigned char byte : random) name += kLetters[byte % kLetters.size()];
    name += kPartEnding;
    if (make(name.c_str()) >= 0) return name;
    if (errno != EEXIST || tries == kTries) fail_io("create", target);
  }
}

/// A temporary file of this process beside its target; the destructor removes it unless it was renamed.
class PartFile {
 public:
  explicit PartFile(const std::filesystem::path& target) : target_(target) {}
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;
  ~PartFile() { unlink(path_.c_str()); }

  /// `like`: the file whose permissions the new file gets; without one it gets `mode`.
  void open(unsigned mode = 0666, const struct stat* like = nullptr) {
    constexpr int kOpen = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    path_ = make_part(target_, [&](const char* path) { return out_.fd = ::open(path, kOpen, mode); });
    if (like && fchmod(out_.fd, like->st_mode & 07777) != 0) fail_io("create", target_);
  }
  void write(std::string_view bytes) const { write_bytes(out_.fd, bytes, target_); }
  void flush() const {
    if (fsync(out_.fd) != 0) fail_io("flush", target_);
  }

  const char* path() const noexcept { return path_.c_str(); }

 private:
  std::filesystem::path target_, path_;
  Descriptor out_;
};

}  // namespace

std::filesystem::path resolve_links(std::filesystem::path file) {
  constexpr int kMaxLinks = 40;  // the limit of the operating system
  std::error_code error;
  for (int links = 0; std::filesystem::is_symlink(std::filesystem::symlink_status(file, error)); ++links) {
    if (links == kMaxLinks) {
      errno = ELOOP;
      fail_io("write", file);
    }
    const auto folder = std::filesystem::canonical(file.has_parent_path() ? file.parent_path() : ".", error);
    if (is_descriptor_folder(folder)) return folder / file.filename();
    // operator/ keeps only the right side when that is absolute.
    file = file.parent_path() / std::filesystem::read_symlink(file, error);
    // "folder/" might be a link, which the trailing slash would follow.
    if (!file.has_filename()) file = file.parent_path();
  }
  return file;
}

std::optional<int> named_descriptor(const std::filesystem::path& file) {
  if (!is_descriptor_folder(file.parent_path())) return std::nullopt;
  if (!file.string().starts_with(fmt::format("/proc/{}/", getpid())))
    fail(Errc::invalid_argument, "{}: is a descriptor of another process; name a file", file.string());
  return std::atoi(file.filename().c_str());
}

bool is_absent(const std::filesystem::path& file) noexcept {
  std::error_code ignored;
  return std::filesystem::status(file, ignored).type() == std::filesystem::file_type::not_found;
}

std::filesystem::path foreign_entry(const std::filesystem::path& folder,
                                    const std::function<bool(const std::filesystem::directory_entry&)>& own) {
  std::filesystem::path first;
  if (is_absent(folder)) return first;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if ((first.empty() || entry->path() < first) && !own(*entry)) first = entry->path();
  }
  if (error) fail(Errc::device_failure, "{}: cannot be listed: {}", folder.string(), error.message());
  return first;
}

std::filesystem::path temporary_folder() {
  std::error_code error;
  const auto folder = std::filesystem::temp_directory_path(error);
  if (!error) return folder;
  const char* const asked = std::getenv("TMPDIR");
  fail(Errc::device_failure,
       "no temporary files can be made: TMPDIR '{}' is no folder; make it or set another",
       asked ? asked : "");
}

std::filesystem::path make_part_folder(const std::filesystem::path& target) {
  make_own_folders(target.parent_path());
  return make_part(target, [](const char* path) { return mkdir(path, kOwnersFolderMode); });
}

TemporaryFolder::TemporaryFolder(std::string_view name)
    : path_(make_part(temporary_folder() / name, [](const char* path) { return mkdir(path, 0700); })) {}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string read_file(const std::filesystem::path& file) {
  const Descriptor in{open(file.c_str(), O_RDONLY | O_CLOEXEC)};
  if (in.fd < 0) fail_io("open", file);
  if (is_device_without_end(in.fd))
    fail(Errc::device_failure, "{}: is a device; name a file or a pipe", file.string());
  std::string bytes;
  std::size_t room = std::max<std::size_t>(known_bytes(in.fd) + 1, 1 << 12);
  for (;;) {
    const std::size_t filled = bytes.size();
    if (filled > kMaxFileBytes) fail(Errc::corrupt_data, "{}: larger than 1 GiB", file.string());
    if (filled == room) room *= 2;
    // Always one byte more than the file's size: the read that finds the end needs no new buffer.
    bytes.resize(room);
    const ssize_t got = read(in.fd, bytes.data() + filled, bytes.size() - filled);
    bytes.resize(filled + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && errno != EINTR) fail_io("read", file);
    if (got == 0) return bytes;
  }
}

std::string read_plain_text(const std::filesystem::path& file) {
  std::string bytes = read_file(file);
  bytes.erase(0, bytes.size() - without_byte_order_mark(bytes).size());
  return bytes;
}

void write_bytes(int descriptor, std::string_view bytes, const std::filesystem::path& file) {
  while (!bytes.empty()) {
    kscout_held_signals held;
    kscout_hold_signals(&held, SIGXFSZ, SIGXFSZ);  // a limit on file sizes is an error like any other
    const ssize_t put = write(descriptor, bytes.data(), bytes.size());
    kscout_release_signals(&held);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail_io("write", file);
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
}

struct AtomicFile::State {
  std::filesystem::path file, target;
  Descriptor opened;              ///< a device, a pipe or a socket: a rename would replace it with a file
  std::optional<int> descriptor;  ///< what is written instead of a part: `opened`, or one of the caller's
  std::optional<PartFile> part;
};

AtomicFile::AtomicFile(const std::filesystem::path& file, unsigned mode) : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.file = file;
  struct stat old {};
  const bool there = stat(file.c_str(), &old) == 0;
  if (there && !S_ISREG(old.st_mode)) {
    state.opened.fd = open(file.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (state.opened.fd < 0) fail_io("open", file);
    state.descriptor = state.opened.fd;
    return;
  }
  state.target = resolve_links(file);
  // The opener may have written to the descriptor before, and may read or write further.
  state.descriptor = named_descriptor(state.target);
  if (state.descriptor) return;
  // A rename needs write access to the folder only.
  if (there && access(file.c_str(), W_OK) != 0) fail_io("write", file);
  state.part.emplace(state.target);
  state.part->open(mode, there ? &old : nullptr);
}

AtomicFile::~AtomicFile() = default;

void AtomicFile::write(std::string_view bytes) {
  if (state_->descriptor) return write_bytes(*state_->descriptor, bytes, state_->file);
  state_->part->write(bytes);
}

void AtomicFile::commit() {
  if (!state_->part) return;
  state_->part->flush();
  if (rename(state_->part->path(), state_->target.c_str()) != 0) fail_io("write", state_->file);
}

void write_file_atomically(const std::filesystem::path& file, std::string_view bytes, unsigned mode) {
  AtomicFile out(file, mode);
  out.write(bytes);
  out.commit();
}

void create_file_atomically(const std::filesystem::path& file, std::string_view bytes) {
  PartFile part(file);
  part.open();
  part.write(bytes);
  part.flush();
  if (link(part.path(), file.c_str()) != 0 && errno != EEXIST) fail_io("create", file);
}

// Defined by the generated file of cmake/KscoutEmbed.cmake.
extern const std::span<const EmbeddedFile> kEmbeddedFiles;

[[gnu::weak]] std::span<const EmbeddedFile> further_files() noexcept { return {}; }

namespace {

/// Calls fn(file) for each embedded file.
template <class F>
void for_each_file(const F& fn) {
  for (const EmbeddedFile& file : kEmbeddedFiles) fn(file);
  for (const EmbeddedFile& file : further_files()) fn(file);
}

}  // namespace

std::string_view embedded_file(std::string_view name) {
  const EmbeddedFile* found = nullptr;
  for_each_file([&](const EmbeddedFile& file) {
    if (file.name == name) found = &file;
  });
  if (found) return found->bytes;
  throw Error(Errc::not_found, unknown_name_message("embedded file", name, embedded_file_names("")));
}

std::string_view embedded_file(std::span<const EmbeddedFile> files, std::string_view name) {
  const auto found = std::ranges::find(files, name, &EmbeddedFile::name);
  if (found == files.end()) fail(Errc::not_found, "embedded file '{}' is none of this library", name);
  return found->bytes;
}

std::vector<std::string_view> embedded_file_names(std::string_view prefix) {
  std::vector<std::string_view> names;
  for_each_file([&](const EmbeddedFile& file) {
    if (file.name.starts_with(prefix)) names.push_back(file.name);
  });
  return names;
}

std::filesystem::path program_file() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error);
}

std::filesystem::path library_file() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&library_file), &info) == 0 || !info.dli_fname) return {};
  std::error_code error;
  const std::filesystem::path file = std::filesystem::canonical(info.dli_fname, error);
  return error ? std::filesystem::path() : file;
}

void check_decompressed(std::size_t in, std::size_t out, std::string_view source) {
  const std::size_t by_ratio = std::min(in, kMaxFileBytes) * kMaxRatio;
  const std::size_t limit = std::min(kMaxFileBytes, std::max(kSafeBytes, by_ratio));
  if (out > limit)
    fail(Errc::corrupt_data,
         "{}: {} bytes become more than {} when decompressed; if they should, name the decompressed file",
         source, in, limit);
}

std::string decompressed(std::size_t in, std::string_view source,
                         const std::function<bool(std::string& text)>& add_piece) {
  std::string text;
  bool more = true;
  while (more) {
    more = add_piece(text);
    check_decompressed(in, text.size(), source);
  }
  return text;
}

std::string gunzip(std::string_view bytes, std::string_view source, bool* cut) {
  z_stream stream{};
  if (inflateInit2(&stream, 15 + 16) != Z_OK) fail(Errc::device_failure, "zlib cannot start");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> guard(&stream, inflateEnd);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  return decompressed(bytes.size(), source, [&](std::string& text) {
    const std::size_t filled = text.size();
    text.resize(std::max<std::size_t>(filled * 2, 1 << 16));
    stream.next_out = reinterpret_cast<Bytef*>(text.data() + filled);
    stream.avail_out = static_cast<uInt>(text.size() - filled);
    const int status = inflate(&stream, Z_NO_FLUSH);
    text.resize(text.size() - stream.avail_out);
    if (status == Z_OK) return true;
    if (status == Z_STREAM_END) return stream.avail_in > 0 && inflateReset(&stream) == Z_OK;
    const bool ends_early = status == Z_BUF_ERROR && stream.avail_in == 0;
    if (!cut || !ends_early) fail(Errc::corrupt_data, "{}: damaged or cut gzip data", source);
    *cut = true;
    return false;
  });
}

std::string read_maybe_gzip(const std::filesystem::path& file, bool* cut) {
  std::string bytes = read_plain_text(file);
  if (!bytes.starts_with("\x1f\x8b")) return bytes;
  return std::string(without_byte_order_mark(gunzip(bytes, file.string(), cut)));
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
