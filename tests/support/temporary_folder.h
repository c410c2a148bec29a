#pragma once
/// \file
/// Creates a unique temporary folder for the files of a test or a benchmark.
///
///     const test::TemporaryFolder folder;
///     write_file_atomically(folder / "a.json", text);
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include <unistd.h>

namespace kscout::test {

/// Created empty under an unused name, and removed with its contents. The name of a test or a process id
/// would not be unique: another build tree runs the same test at the same time, and process ids repeat after
/// one that crashed.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "kscout_XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::system_error(errno, std::generic_category(), name);
    path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  /// A forked child removes nothing: the folder belongs to the parent.
  ~TemporaryFolder() {
    std::error_code ignored;
    if (getpid() == maker_) std::filesystem::remove_all(path_, ignored);
  }

  const std::filesystem::path& path() const noexcept { return path_; }
  std::filesystem::path operator/(const std::filesystem::path& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
  const pid_t maker_ = getpid();
};

}  // namespace kscout::test
