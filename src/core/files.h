#pragma once
/// \file
/// Reads whole files, writes them so that a reader sees all or nothing, and finds those that this code runs
/// from.
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace kscout {

/// Larger files are refused.
inline constexpr std::size_t kMaxFileBytes = std::size_t{1} << 30;

/// Nothing of that name is there (a file that is there but may not be seen is not absent).
bool is_absent(const std::filesystem::path& file) noexcept;

/// The bytes of a file. Throws not_found when it is absent, device_failure when it cannot be read,
/// corrupt_data above kMaxFileBytes.
std::string read_file(const std::filesystem::path& file);

/// Writes a regular file beside the target, flushes, then renames: readers see the old file or the new one,
/// and the new one keeps the permissions of the old. A symbolic link stays: the file that it names is
/// replaced. A device, a pipe or a socket is opened and written. Throws device_failure, not_found when the
/// folder is absent.
void write_file_atomically(const std::filesystem::path& file, std::string_view bytes);

/// Writes all bytes to an open descriptor; `file` names it in errors. Throws device_failure.
void write_bytes(int descriptor, std::string_view bytes, const std::filesystem::path& file);

/// Creates a regular file the same way, but keeps one that is there already: of several that create it at
/// once, one wins.
void create_file_atomically(const std::filesystem::path& file, std::string_view bytes);

// ---- Files of the repository (families/*.toml and others) that travel inside the library.
//
//     std::string_view text = embedded_file("families/native_gemm.toml");

struct EmbeddedFile {
  std::string_view name;  ///< path from the repository's root
  std::string_view bytes;
};

/// The bytes of a file that was embedded; throws not_found naming the nearest one. No copy, no parsing.
std::string_view embedded_file(std::string_view name);
/// Names of all embedded files that start with `prefix`.
std::vector<std::string_view> embedded_file_names(std::string_view prefix);

// ---- Finds the files that this code runs from, so that other files of the installation can be looked up
// beside them.
//
//     const std::filesystem::path worker = program_file().parent_path() / "kscout-worker";

/// The running program; empty when the system does not tell.
std::filesystem::path program_file();

/// The file that holds this code: a shared library (libkscout.so, the Python extension), else the program.
/// Links are resolved; empty when the file is gone.
std::filesystem::path library_file();

// ---- Compresses and decompresses gzip.

/// read_file, then gunzip when the bytes start with the gzip mark. Throws corrupt_data for damaged gzip and
/// for more than kMaxFileBytes of output.
std::string read_maybe_gzip(const std::filesystem::path& file);

/// Decompresses gzip; `source` names it in errors. Throws corrupt_data for damaged data and for more than
/// kMaxFileBytes of output.
std::string gunzip(std::string_view bytes, std::string_view source);

/// gzip with level 9 and no time stamp: equal input gives equal bytes.
std::string gzip(std::string_view bytes);

}  // namespace kscout
