#pragma once
/// \file
/// Reads and writes comma-separated values (RFC 4180), with quoted cells, any line ends and a byte order
/// mark.
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
  std::vector<std::vector<std::string>> rows;  ///< each of the length of `names`

  std::optional<std::size_t> column(std::string_view name) const noexcept;
};

/// Throws corrupt_data naming `source` and the row (from 1, below the header): no header, a row of another
/// length, an unclosed quote.
CsvSheet read_csv(std::string_view text, const std::string& source);

/// Appends one cell, quoted where necessary.
void append_csv(std::string& out, std::string_view cell);

}  // namespace kscout
