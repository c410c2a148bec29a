#pragma once
/// \file
/// Splits the lines of lists of problems.
///
///     for (const std::string_view cell : cells_of("16, 64, \"32\"")) ...   // 16, 64, 32
#include <string_view>
#include <vector>

#include "core/split.h"

namespace kscout {

/// Cells of a CSV line, without the blanks and plain quotes around them: no field's text contains a comma or
/// a quote.
inline std::vector<std::string_view> cells_of(std::string_view line) {
  std::vector<std::string_view> cells = split(line, ',');
  for (std::string_view& cell : cells) {
    cell = trimmed(cell);
    if (cell.size() >= 2 && cell.front() == '"' && cell.back() == '"') cell = cell.substr(1, cell.size() - 2);
  }
  return cells;
}

}  // namespace kscout
