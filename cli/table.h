#pragma once
/// \file
/// Prints a table with named columns as aligned text, JSON (an array of objects) or CSV.
///
///     Table table({"config", "time_us"});
///     table.add_row({text(name), number(12.5)});
///     table.print(Format::text);
///
/// On a terminal, text that is too wide is wrapped: sentences within their column, and if that is not enough,
/// each row becomes a block of lines, one per column. Elsewhere (a file, a pipe) a row stays one line of any
/// length.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <kscout/fields.h>
#include <kscout/types.h>

namespace kscout::cli {

enum class Format : std::uint8_t { text, json, csv };

/// A value in its text form and its JSON form.
struct Cell {
  std::string text;
  bool quoted = true;  ///< a JSON string; false = a number, true/false or null
};

Cell text(std::string_view value);
/// NaN prints as "-" and becomes null. `digits` are significant digits in text; JSON and CSV keep full
/// precision.
Cell number(double value, int digits = 6);
Cell number(std::int64_t value);
Cell flag(bool value);

class Table {
 public:
  explicit Table(std::vector<std::string> columns) : columns_(std::move(columns)) {}
  /// Needs as many cells as columns.
  void add_row(std::vector<Cell> cells);
  std::size_t size() const noexcept { return rows_.size(); }
  /// Writes to stdout.
  void print(Format format) const;
  /// `width`: of the terminal; 0 = no terminal.
  std::string to_string(Format format, std::size_t width = 0) const;

 private:
  std::vector<std::string> columns_;
  std::vector<std::vector<Cell>> rows_;

  std::string text_of(std::size_t terminal) const;
  std::string blocks_of(std::size_t terminal) const;
};

/// One cell per field of a record, in field order.
template <Record T>
std::vector<Cell> field_cells(const T& record) {
  std::vector<Cell> cells;
  for_each_field<T>([&](const auto& field) {
    const auto& value = record.*field.member;
    using V = std::remove_cvref_t<decltype(value)>;
    if constexpr (std::is_same_v<V, std::string>) {
      cells.push_back(text(value));
    } else if constexpr (WordEnum<V>) {
      cells.push_back(text(word(value)));
    } else if constexpr (std::is_same_v<V, bool>) {
      cells.push_back(flag(value));
    } else if constexpr (std::is_floating_point_v<V>) {
      cells.push_back(number(value));
    } else {
      cells.push_back(number(static_cast<std::int64_t>(value)));
    }
  });
  return cells;
}

}  // namespace kscout::cli

template <>
struct kscout::EnumWords<kscout::cli::Format> {
  static constexpr std::string_view what = "format";
  static constexpr std::array<std::string_view, 3> words = {"text", "json", "csv"};
};
