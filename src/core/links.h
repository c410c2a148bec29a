#pragma once
/// \file
/// Resolves symbolic links, and makes temporary folders; the functions are in files.cpp.
///
///     check_folder(resolve_links("latest.json").parent_path());
#include <filesystem>
#include <optional>
#include <string_view>

namespace kscout {

/// The path without links; its last part may name a file or folder that does not exist yet. The name of an
/// open descriptor (/dev/fd/3, /proc/self/fd/3) stays unchanged. Throws device_failure for a cycle of links.
std::filesystem::path resolve_links(std::filesystem::path file);

/// TMPDIR, else /tmp. Throws device_failure when that is not a folder.
std::filesystem::path temporary_folder();

/// Makes an empty folder NAME.<six random letters>.part beside a target (part_name.h): others may write to
/// the folder above, so nobody can foresee the name, and an existing folder or link is not taken. Makes the
/// folders above it. Throws device_failure.
std::filesystem::path make_part_folder(const std::filesystem::path& target);

/// A part folder in temporary_folder() that only this user may enter; the destructor removes it.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(std::string_view name);
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();

  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

/// The descriptor of this process that a result of resolve_links names. Throws invalid_argument for a
/// descriptor of another process.
std::optional<int> named_descriptor(const std::filesystem::path& file);

}  // namespace kscout
