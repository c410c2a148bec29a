#pragma once
/// \file
/// Names a file for dlopen. Header only, because the CUDA module uses it, too.
///
///     dlopen(loader_name(named).c_str(), RTLD_NOW | RTLD_LOCAL);
#include <filesystem>
#include <string>
#include <system_error>

namespace kscout {

/// The name with which dlopen opens a file that a user or an index names. dlopen searches its own folders for
/// a name without a slash, so a file of that name in the current folder becomes "./NAME".
inline std::string loader_name(const std::filesystem::path& named) {
  std::error_code ignored;
  const bool bare = !named.empty() && !named.has_parent_path();
  return bare && std::filesystem::exists(named, ignored) ? "./" + named.string() : named.string();
}

}  // namespace kscout
