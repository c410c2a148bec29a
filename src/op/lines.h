#pragma once
/// \file
/// Splits the lines of lists of problems.
///
///     for (const std::string_view cell : cells_of("16, 64, \"32\"")) ...   // 16, 64, 32
#include <algorithm>
#include <string_view>
#include <vector>

namespace kscout {

/// The text without the blanks around it.
inline std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

/// Cells of a CSV line, without the blanks and plain quotes around them: no field's text contains a comma or
/// a quote.
inline std::vector<std::string_view> cells_of(std::string_view line) {
  std::vector<std::string_view> cells;
  for (std::size_t begin = 0; begin <= line.size();) {
    const std::size_t end = std::min(line.find(',', begin), line.size());
    std::string_view cell = trimmed(line.substr(begin, end - begin));
    if (cell.size() >= 2 && cell.front() == '"' && cell.back() == '"') cell = cell.substr(1, cell.size() - 2);
    cells.push_back(cell);
    begin = end + 1;
  }
  return cells;
}

}  // namespace kscout
