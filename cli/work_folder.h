#pragma once
/// \file
/// The folder of a sweep that a verb makes for its own use.
///
///     const WorkFolder folder(options.work, "--work", "validate");
///     run_sweep(plan, {.folder = folder.path});
#include <filesystem>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <unistd.h>

#include "core/fail.h"
#include "core/files.h"
#include "core/links.h"
#include "sweep/journal.h"

namespace kscout::cli {

/// The user's folder, which is kept and continued, or a temporary one.
class WorkFolder {
 public:
  /// Throws invalid_argument, naming the flag, for a folder that `is_own` finds a foreign entry in.
  WorkFolder(const std::string& asked, std::string_view flag, std::string_view verb,
             bool (*is_own)(const std::filesystem::directory_entry&) = is_sweep_file)
      : path(asked.empty() ? temporary_folder() / fmt::format("kscout-{}-{}", verb, getpid())
                           : std::filesystem::path(asked)),
        mine_(asked.empty()) {
    if (!std::filesystem::is_directory(path)) return;
    if (const auto other = foreign_entry(path, is_own); !other.empty())
      fail(Errc::invalid_argument, "{} {}: it holds {}, which no sweep wrote; name another folder", flag,
           path.string(), other.filename().string());
  }
  ~WorkFolder() { clear(); }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  const std::filesystem::path path;

  /// Removes a temporary folder.
  void clear() const {
    std::error_code ignored;
    if (mine_) std::filesystem::remove_all(path, ignored);
  }

 private:
  bool mine_;
};

}  // namespace kscout::cli
