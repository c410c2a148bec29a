#include "core/csv.h"

#include <algorithm>

#include "core/fail.h"
#include "core/split.h"

namespace kscout {

namespace {

/// Reads the cells of CSV text, record by record.
class CsvReader {
 public:
  CsvReader(std::string_view text, const std::string& source)
      : rest_(without_byte_order_mark(text)), source_(source) {}

  /// False at the end of the text. Blank lines are skipped.
  bool next(std::vector<std::string>& cells) {
    while (!rest_.empty() && (rest_.front() == '\n' || rest_.front() == '\r')) rest_.remove_prefix(1);
    cells.clear();
    if (rest_.empty()) return false;
    ++record_;
    do {
      cells.push_back(cell());
    } while (take(','));
    take('\r');
    if (!rest_.empty() && !take('\n')) fail_here("text behind a closing quote");
    return true;
  }

  [[noreturn]] void fail_here(std::string_view what) const {
    fail(Errc::corrupt_data, "{}: row {}: {} (RFC 4180)", source_, record_ - 1, what);
  }

 private:
  bool take(char c) {
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }

  std::string cell() {
    if (!take('"')) {
      const std::size_t end = std::min(rest_.find_first_of(",\r\n"), rest_.size());
      std::string text(rest_.substr(0, end));
      rest_.remove_prefix(end);
      return text;
    }
    std::string text;
    while (true) {
      const std::size_t quote = rest_.find('"');
      if (quote == std::string_view::npos) fail_here("a quote is not closed");
      text += rest_.substr(0, quote);
      rest_.remove_prefix(quote + 1);
      if (!take('"')) return text;
      text += '"';
    }
  }

  std::string_view rest_;
  const std::string& source_;
  std::size_t record_ = 0;
};

}  // namespace

std::optional<std::size_t> CsvSheet::column(std::string_view name) const noexcept {
  const auto at = std::ranges::find(names, name);
  return at == names.end() ? std::nullopt : std::optional(static_cast<std::size_t>(at - names.begin()));
}

CsvSheet read_csv(std::string_view text, const std::string& source) {
  CsvReader reader(text, source);
  CsvSheet sheet;
  if (!reader.next(sheet.names))
    fail(Errc::corrupt_data, "{}: empty; the first line must name the columns", source);
  std::vector<std::string> cells;
  while (reader.next(cells)) {
    if (cells.size() != sheet.names.size()) {
      reader.fail_here(fmt::format("{} cells under {} columns; the file may be cut short", cells.size(),
                                   sheet.names.size()));
    }
    sheet.rows.push_back(std::move(cells));
  }
  return sheet;
}

void append_csv(std::string& out, std::string_view cell) {
  if (cell.find_first_of(",\"\r\n") == std::string_view::npos) {
    out += cell;
    return;
  }
  out += '"';
  for (const char c : cell) {
    if (c == '"') out += '"';
    out += c;
  }
  out += '"';
}

}  // namespace kscout
