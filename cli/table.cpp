#include "table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/csv.h"
#include "core/fail.h"
#include "core/json_fields.h"
#include "core/printable.h"
#include "core/problem_text.h"

namespace kscout::cli {

namespace {

/// Appends a cell of a CSV line.
void append_cell(std::string& out, std::size_t column, std::string_view value) {
  if (column) out += ',';
  append_csv(out, value);
}

/// JSON and CSV contain the full number; text shows the rounded one.
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

std::string Table::to_string(Format format, std::size_t width) const {
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
  return text_of(width);
}

namespace {

constexpr std::size_t kGap = 2, kMinSentence = 24;

/// A text on one line.
std::string_view shown(const Cell& cell, std::string& scratch) {
  if (cell.quoted) return scratch = printable_line(cell.text);
  scratch = split_number(cell.text).shown;
  return scratch;
}

std::size_t total_of(const std::vector<std::size_t>& widths) {
  std::size_t total = 0;
  for (const std::size_t one : widths) total += one + (total ? kGap : 0);
  return total;
}

/// Wraps a sentence at `width`; a longer word gets a line of its own.
std::vector<std::string> wrapped(std::string_view text, std::size_t width) {
  std::vector<std::string> lines(1);
  for (const std::string_view word : split(text, ' ')) {
    if (!lines.back().empty() && lines.back().size() + 1 + word.size() > width) lines.emplace_back();
    lines.back() += (lines.back().empty() ? "" : " ") + std::string(word);
  }
  return lines;
}

}  // namespace

std::string Table::text_of(std::size_t terminal) const {
  std::string scratch;
  std::vector<std::size_t> width(columns_.size()), longest_word(columns_.size());
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    width[c] = longest_word[c] = columns_[c].size();
    for (const auto& row : rows_) {
      const std::string_view text = shown(row[c], scratch);
      width[c] = std::max(width[c], text.size());
      if (!row[c].quoted) longest_word[c] = width[c];
      for (const std::string_view word : split(text, ' '))
        longest_word[c] = std::max(longest_word[c], word.size());
    }
  }
  // Narrows the columns with sentences, the widest first.
  while (terminal != 0 && total_of(width) > terminal) {
    std::size_t widest = columns_.size(), room = 0;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const std::size_t least = std::max(longest_word[c], kMinSentence);
      if (width[c] > least && width[c] - least > room) widest = c, room = width[c] - least;
    }
    if (widest == columns_.size()) return blocks_of(terminal);
    width[widest] -= std::min(room, total_of(width) - terminal);
  }
  std::string out;
  const auto add_row = [&](auto&& cell_of, auto&& is_number) {
    std::vector<std::vector<std::string>> cells;
    std::size_t lines = 1;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      cells.push_back(wrapped(cell_of(c), width[c]));
      lines = std::max(lines, cells.back().size());
    }
    for (std::size_t l = 0; l < lines; ++l) {
      std::string line;
      for (std::size_t c = 0; c < columns_.size(); ++c) {
        const std::string_view text =
            l < cells[c].size() ? std::string_view(cells[c][l]) : std::string_view();
        line += fmt::format("{:{}}", "", c ? kGap : 0);
        line += is_number(c) ? fmt::format("{:>{}}", text, width[c]) : fmt::format("{:<{}}", text, width[c]);
      }
      line.erase(line.find_last_not_of(' ') + 1);
      out += line + '\n';
    }
  };
  add_row([&](std::size_t c) { return std::string_view(columns_[c]); }, [](std::size_t) { return false; });
  for (const auto& row : rows_)
    add_row([&](std::size_t c) { return shown(row[c], scratch); },
            [&](std::size_t c) { return !row[c].quoted; });
  return out;
}

/// One block per row: names of columns on the left, values on the right.
std::string Table::blocks_of(std::size_t terminal) const {
  std::size_t names = 0;
  for (const std::string& name : columns_) names = std::max(names, name.size());
  const std::size_t room = std::max(kMinSentence, terminal - std::min(terminal, names + kGap));
  std::string out, scratch;
  for (const auto& row : rows_) {
    if (!out.empty()) out += '\n';
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      std::string_view name = columns_[c];
      for (const std::string& line : wrapped(shown(row[c], scratch), room)) {
        std::string text = fmt::format("{:<{}}{:{}}{}", name, names, "", kGap, line);
        text.erase(text.find_last_not_of(' ') + 1);
        out += text + '\n';
        name = "";
      }
    }
  }
  return out;
}

namespace {

/// Width of the terminal that stdout is connected to; 0 when it is none.
std::size_t terminal_width() {
  struct winsize size {};
  if (isatty(STDOUT_FILENO) == 0 || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

}  // namespace

void Table::print(Format format) const {
  const std::string out = to_string(format, terminal_width());
  std::fwrite(out.data(), 1, out.size(), stdout);
}

}  // namespace kscout::cli
