#pragma once
/// \file
/// Describes this build: for the metadata of measurements and models, and for `kscout --version`.
///
///     metadata["git_version"] = build_info().git;
#include <string>
#include <string_view>

namespace kscout {

struct BuildInfo {
  std::string_view version;   ///< "0.1.0"
  std::string_view git;       ///< "v0.1.0-12-g5c038b4", with "-dirty" for uncommitted changes; or "unknown"
  std::string_view compiler;  ///< "GNU 12.2.0"
  std::string_view flags;     ///< "-O3 -DNDEBUG", with the sanitizers if any
};

const BuildInfo& build_info() noexcept;

/// "0.1.0 (git 5c038b4, GNU 12.2.0, -O3 -DNDEBUG)"
std::string build_line();

}  // namespace kscout
