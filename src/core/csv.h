#pragma once
/// \file
/// Comma-separated values (RFC 4180): quoted cells, line ends of any system, a byte order mark in front.
///
///     const CsvSheet sheet = read_csv(text, "oracle.csv");
///     const auto kernel = sheet.column("kernel_name");     // position; nothing when there is no such column
///     for (const auto& row : sheet.rows) use(row[*kernel]);
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kscout {

/// All cells as texts. Blank lines are left out.
struct CsvSheet {
  std::vector<std::string> names;              ///< the first line
  std::vector<std::vector<std::string>> rows;  ///< each as long as `names`

  std::optional<std::size_t> column(std::string_view name) const noexcept;
};

/// Throws corrupt_data naming `source` and the row (from 1, under the header): no header, a row of another
/// length, an open quote.
CsvSheet read_csv(std::string_view text, const std::string& source);

/// Appends one cell, quoted where it must be.
void append_csv(std::string& out, std::string_view cell);

}  // namespace kscout
