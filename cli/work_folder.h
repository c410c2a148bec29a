#pragma once
/// \file
/// The folder of a sweep that a verb makes for its own use.
///
///     const WorkFolder folder(options.work, "--work", "validate");
///     run_sweep(plan, {.folder = folder.path});
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "core/fail.h"
#include "core/files.h"
#include "core/links.h"
#include "sweep/journal.h"

namespace kscout::cli {

/// The user's folder, which is kept and continued, or a temporary one.
class WorkFolder {
 private:
  std::unique_ptr<const TemporaryFolder> mine_;

 public:
  /// Throws invalid_argument, naming the flag, for a folder that `is_own` finds a foreign entry in.
  WorkFolder(const std::string& asked, std::string_view flag, std::string_view verb,
             bool (*is_own)(const std::filesystem::directory_entry&) = is_sweep_file)
      : mine_(asked.empty() ? std::make_unique<TemporaryFolder>(fmt::format("kscout-{}", verb)) : nullptr),
        path(mine_ ? mine_->path() : std::filesystem::path(asked)) {
    if (mine_ || !std::filesystem::is_directory(path)) return;
    if (const auto other = foreign_entry(path, is_own); !other.empty())
      fail(Errc::invalid_argument, "{} {}: it holds {}, which no sweep wrote; name another folder", flag,
           path.string(), other.filename().string());
  }
  const std::filesystem::path path;

  /// Removes a temporary folder.
  void clear() { mine_.reset(); }
};

}  // namespace kscout::cli
