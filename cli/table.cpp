#include "table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include <fmt/format.h>

#include "core/csv.h"
#include "core/fail.h"
#include "core/json_fields.h"

namespace kscout::cli {

namespace {

/// Appends a cell of a CSV line.
void append_cell(std::string& out, std::size_t column, std::string_view value) {
  if (column) out += ',';
  append_csv(out, value);
}

/// JSON and CSV carry the whole number; people read the short one.
struct Number {
  std::string exact, shown;
};
Number split_number(const std::string& text) {
  const std::size_t bar = text.find('|');
  return bar == std::string::npos ? Number{text, text} : Number{text.substr(0, bar), text.substr(bar + 1)};
}

}  // namespace

Cell text(std::string_view value) { return {std::string(value), true}; }
Cell number(std::int64_t value) { return {std::to_string(value), false}; }
Cell flag(bool value) { return {value ? "true" : "false", false}; }
Cell number(double value, int digits) {
  if (!std::isfinite(value)) return {"null|-", false};
  return {fmt::format("{}|{:.{}g}", value, value, digits), false};
}

void Table::add_row(std::vector<Cell> cells) {
  if (cells.size() != columns_.size()) {
    fail(Errc::invalid_argument, "table row of {} cells under {} columns", cells.size(), columns_.size());
  }
  rows_.push_back(std::move(cells));
}

std::string Table::to_string(Format format) const {
  std::string out;
  if (format == Format::json) {
    out = "[";
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      out += r ? ",\n {" : "\n {";
      for (std::size_t c = 0; c < columns_.size(); ++c) {
        const Cell& cell = rows_[r][c];
        out += fmt::format("{}{}: {}", c ? ", " : "", Json(columns_[c]).dump(),
                           cell.quoted ? Json(cell.text).dump(-1, ' ', false, Json::error_handler_t::replace)
                                       : split_number(cell.text).exact);
      }
      out += "}";
    }
    return out + "\n]\n";
  }
  if (format == Format::csv) {
    for (std::size_t c = 0; c < columns_.size(); ++c) append_cell(out, c, columns_[c]);
    out += '\n';
    for (const auto& row : rows_) {
      for (std::size_t c = 0; c < row.size(); ++c) {
        const std::string exact = row[c].quoted ? row[c].text : split_number(row[c].text).exact;
        append_cell(out, c, exact == "null" && !row[c].quoted ? "" : exact);
      }
      out += '\n';
    }
    return out;
  }
  std::vector<std::size_t> width(columns_.size());
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    width[c] = columns_[c].size();
    for (const auto& row : rows_) {
      width[c] =
          std::max(width[c], row[c].quoted ? row[c].text.size() : split_number(row[c].text).shown.size());
    }
  }
  const auto line = [&](auto&& cell_of) {
    std::string text;
    for (std::size_t c = 0; c < columns_.size(); ++c) text += (c ? "  " : "") + cell_of(c);
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + '\n';
  };
  line([&](std::size_t c) { return fmt::format("{:<{}}", columns_[c], width[c]); });
  for (const auto& row : rows_) {
    line([&](std::size_t c) {
      return row[c].quoted ? fmt::format("{:<{}}", row[c].text, width[c])
                           : fmt::format("{:>{}}", split_number(row[c].text).shown, width[c]);
    });
  }
  return out;
}

void Table::print(Format format) const {
  const std::string out = to_string(format);
  std::fwrite(out.data(), 1, out.size(), stdout);
}

}  // namespace kscout::cli
