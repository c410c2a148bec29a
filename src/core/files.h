#pragma once
/// \file
/// Reads whole files, writes files atomically, and finds the files of this installation.
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kscout {

/// Larger files are refused.
inline constexpr std::size_t kMaxFileBytes = std::size_t{1} << 30;

/// Whether no file of that name exists (a file that exists but may not be read is not absent).
bool is_absent(const std::filesystem::path& file) noexcept;

/// The first entry of a folder, by name, that `own` rejects: a file of somebody else, which a program should
/// neither overwrite nor remove. Empty when there is none, or no folder. Throws device_failure when the
/// folder cannot be listed.
std::filesystem::path foreign_entry(const std::filesystem::path& folder,
                                    const std::function<bool(const std::filesystem::directory_entry&)>& own);

/// The bytes of a file or a pipe. Throws not_found when it is absent, device_failure when it cannot be read
/// or is a device that may never end, corrupt_data above kMaxFileBytes.
std::string read_file(const std::filesystem::path& file);

/// The same without a byte-order mark: for texts that are read line by line.
std::string read_plain_text(const std::filesystem::path& file);

/// Writes a regular file beside the target, flushes it, then renames it: readers see the old or the new file,
/// and the new file keeps the permissions of the old one. A symbolic link stays; its target is replaced. A
/// device, a pipe or a socket is opened and written. Throws device_failure, not_found when the folder is
/// absent. `mode`: the permissions of a new file, less those that the umask takes.
void write_file_atomically(const std::filesystem::path& file, std::string_view bytes, unsigned mode = 0666);

/// The mode of files that are used only where nobody but their owner may write (core/owners.h).
inline constexpr unsigned kOwnersMode = 0644;

/// Writes a file piece by piece in the same way: `commit` puts it in place, and without it the old file
/// stays.
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& file, unsigned mode = 0666);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  void write(std::string_view bytes);
  void commit();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Writes all bytes to an open descriptor; `file` names it in errors. Throws device_failure.
void write_bytes(int descriptor, std::string_view bytes, const std::filesystem::path& file);

/// Creates a regular file in the same way, but keeps an existing one: when several processes create it at
/// once, one wins.
void create_file_atomically(const std::filesystem::path& file, std::string_view bytes);

// ---- Reads the repository's files (families/*.toml and others) that are embedded in the library.
//
//     std::string_view text = embedded_file("families/native_gemm.toml");

struct EmbeddedFile {
  std::string_view name;  ///< path from the repository's root
  std::string_view bytes;
};

/// Files that a program embeds in addition: it defines this function. None otherwise.
std::span<const EmbeddedFile> further_files() noexcept;

/// The bytes of an embedded file; throws not_found naming the nearest file. Neither copies nor parses.
std::string_view embedded_file(std::string_view name);
/// The same, out of those of one call of kscout_embed() (cmake/KscoutEmbed.cmake).
std::string_view embedded_file(std::span<const EmbeddedFile> files, std::string_view name);
/// Names of all embedded files that start with `prefix`.
std::vector<std::string_view> embedded_file_names(std::string_view prefix);

// ---- Finds the files of the running code, so that other files of the installation can be found beside them.
//
//     const std::filesystem::path worker = program_file().parent_path() / "kscout-worker";

/// The running program; empty when the system does not report it.
std::filesystem::path program_file();

/// The file that contains this code: a shared library (libkscout.so, the Python extension), else the program.
/// Links are resolved; empty when the file was deleted.
std::filesystem::path library_file();

// ---- Compresses and decompresses.

/// Compressed texts that are longer than the first limit, and more than the second times as long as the file,
/// are refused.
inline constexpr std::size_t kSafeBytes = std::size_t{64} << 20, kMaxRatio = 200;

/// Every decompressor obeys this: `in` compressed bytes became `out` bytes. Throws
/// corrupt_data for more than kMaxFileBytes, and for more than both kSafeBytes and kMaxRatio times the
/// compressed bytes.
void check_decompressed(std::size_t in, std::size_t out, std::string_view source);

/// Collects what a decompressor makes of `in` bytes: `add_piece` appends the next piece, and returns false at
/// the end. Throws as check_decompressed() does.
std::string decompressed(std::size_t in, std::string_view source,
                         const std::function<bool(std::string& text)>& add_piece);

/// Like read_plain_text, but decompresses files that start with the gzip mark; otherwise as gunzip().
std::string read_maybe_gzip(const std::filesystem::path& file, bool* cut = nullptr);

/// Decompresses gzip, also several files in one; `source` names it in errors. Throws corrupt_data for
/// damaged data, and as decompressed() does. With `cut`, data that end too early are no error: `cut` becomes
/// true, and the text is what they hold.
std::string gunzip(std::string_view bytes, std::string_view source, bool* cut = nullptr);

/// gzip with level 9 and no time stamp: equal input gives equal bytes.
std::string gzip(std::string_view bytes);

}  // namespace kscout
