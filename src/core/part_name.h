#pragma once
/// \file
/// Finds the file that a killed process was writing.
///
///     finished_name("manifest.json.4711.part");  // "manifest.json"
#include <algorithm>
#include <string_view>

namespace kscout {

/// Returns NAME for "NAME.<process>.part", the temporary file or folder of an atomic write
/// (write_file_atomically). Returns any other name unchanged.
inline std::string_view finished_name(std::string_view name) {
  constexpr std::string_view kEnding = ".part";
  if (!name.ends_with(kEnding)) return name;
  const std::string_view rest = name.substr(0, name.size() - kEnding.size());
  const std::size_t dot = rest.rfind('.');
  if (dot == rest.npos || dot + 1 == rest.size()) return name;
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return std::ranges::all_of(rest.substr(dot + 1), digit) ? rest.substr(0, dot) : name;
}

}  // namespace kscout
