#pragma once
/// \file
/// Finds the file that a killed process was writing.
///
///     finished_name("manifest.json.q3Vx0a.part");  // "manifest.json"
#include <algorithm>
#include <cstddef>
#include <string_view>

namespace kscout {

inline constexpr std::string_view kPartEnding = ".part";
inline constexpr std::size_t kPartLetters = 6;

/// Returns NAME for "NAME.<six letters>.part", the temporary file of an atomic write (write_file_atomically),
/// and for "NAME.<process>.part" (folders; files of earlier versions). Returns any other name unchanged.
inline std::string_view finished_name(std::string_view name) {
  if (!name.ends_with(kPartEnding)) return name;
  const std::string_view rest = name.substr(0, name.size() - kPartEnding.size());
  const std::size_t dot = rest.rfind('.');
  if (dot == rest.npos || dot + 1 == rest.size()) return name;
  const std::string_view mark = rest.substr(dot + 1);
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto letter = [&](char c) { return digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const bool own =
      std::ranges::all_of(mark, digit) || (mark.size() == kPartLetters && std::ranges::all_of(mark, letter));
  return own ? rest.substr(0, dot) : name;
}

}  // namespace kscout
