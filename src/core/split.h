#pragma once
/// \file
/// Splits texts.
///
///     split("4x5x6", 'x');              // "4", "5", "6"
///     parts_in("one  two", " ");        // "one", "two"
///     trimmed("  text\r");              // "text"
#include <algorithm>
#include <string_view>
#include <vector>

namespace kscout {

/// The text without the blanks around it.
inline std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

/// The text without the byte-order mark that some editors and tools of Windows write before UTF-8.
inline std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  return text;
}

/// The parts between separators, each of which is one of these characters; at least one part.
inline std::vector<std::string_view> split(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find_first_of(separators, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}
inline std::vector<std::string_view> split(std::string_view text, char separator) {
  return split(text, std::string_view(&separator, 1));
}

/// The parts that are not empty.
inline std::vector<std::string_view> parts_in(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> parts = split(text, separators);
  std::erase(parts, std::string_view());
  return parts;
}

}  // namespace kscout
