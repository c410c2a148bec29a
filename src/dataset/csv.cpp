// Datasets as CSV (RFC 4180): one header line with our column names; an empty cell is null.
#include <algorithm>

#include "core/fail.h"
#include "core/field_text.h"
#include "dataset/columns.h"
#include "dataset/dataset.h"

namespace kscout {

namespace {

void append_text(std::string& out, std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) {
    out += text;
    return;
  }
  out += '"';
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  out += '"';
}

void append_value(std::string& out, const ColumnSpec& spec, const ColumnValues& values, std::size_t row) {
  switch (spec.type) {
    case ColumnType::text:
      if (values.index[row] != ColumnValues::null_word) {
        append_text(out, values.words[static_cast<std::size_t>(values.index[row])]);
      }
      return;
    case ColumnType::float64:
      if (values.number[row] == values.number[row])
        fmt::format_to(std::back_inserter(out), "{}", values.number[row]);
      return;
    case ColumnType::boolean:
      out += values.whole[row] ? "true" : "false";
      return;
    default:
      if (values.whole[row] != ColumnValues::null_whole) {
        fmt::format_to(std::back_inserter(out), "{}", values.whole[row]);
      }
  }
}

/// Cells of CSV text, record by record.
class CsvReader {
 public:
  CsvReader(std::string_view text, const std::string& source) : rest_(text), source_(source) {
    if (rest_.starts_with("\xEF\xBB\xBF")) rest_.remove_prefix(3);  // byte order mark of spreadsheets
  }

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

/// Appends one cell to a column; throws invalid_argument.
void parse_cell(ColumnValues& values, const ColumnSpec& spec, const std::string& text,
                std::unordered_map<std::string, std::int32_t>& words) {
  switch (spec.type) {
    case ColumnType::text: {
      if (text.empty()) {
        values.index.push_back(ColumnValues::null_word);
        return;
      }
      const auto [at, is_new] = words.try_emplace(text, static_cast<std::int32_t>(values.words.size()));
      if (is_new) values.words.push_back(text);
      values.index.push_back(at->second);
      return;
    }
    case ColumnType::float64:
      values.number.push_back(text.empty() ? Measurement::unknown : parse_field<double>(spec.name, text));
      return;
    case ColumnType::boolean:
      values.whole.push_back(text == "True"    ? 1  // as Python writes flags
                             : text == "False" ? 0
                                               : parse_field<bool>(spec.name, text));
      return;
    case ColumnType::int32:
      values.whole.push_back(text.empty() ? ColumnValues::null_whole
                                          : parse_field<std::int32_t>(spec.name, text));
      return;
    case ColumnType::int64:
      values.whole.push_back(text.empty() ? ColumnValues::null_whole
                                          : parse_field<std::int64_t>(spec.name, text));
  }
}

/// The columns of the file as texts, before their types are known.
struct Sheet {
  std::vector<std::string> names;
  std::vector<std::vector<std::string>> rows;
};

Sheet read_sheet(std::string_view text, const std::string& source) {
  CsvReader reader(text, source);
  Sheet sheet;
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

/// What the first row says in a column, or `otherwise` when the file has no such column.
std::string first_value(const Sheet& sheet, std::string_view name, std::string_view otherwise) {
  for (std::size_t c = 0; c < sheet.names.size(); ++c) {
    if (sheet.names[c] == name && !sheet.rows.empty()) return sheet.rows.front()[c];
  }
  return std::string(otherwise);
}

Block block_of(const Sheet& sheet, const std::vector<ColumnSpec>& all, const std::string& source) {
  Block block{sheet.rows.size(), std::vector<ColumnValues>(sheet.names.size())};
  for (std::size_t c = 0; c < sheet.names.size(); ++c) {
    const auto spec = std::ranges::find(all, sheet.names[c], &ColumnSpec::name);
    std::unordered_map<std::string, std::int32_t> words;
    for (std::size_t r = 0; r < sheet.rows.size(); ++r) {
      try {
        parse_cell(block.columns[c], *spec, sheet.rows[r][c], words);
      } catch (const Error& error) {
        fail(Errc::corrupt_data, "{}: row {}, column '{}': {}", source, r + 1, spec->name, error.what());
      }
    }
  }
  return block;
}

}  // namespace

std::string dataset_csv(const MeasurementTable& table, const DatasetOptions& options) {
  if (table.configs.empty()) fail(Errc::invalid_argument, "a dataset without configs says nothing");
  const ConfigSpace& space = *table.configs.front().space;
  const auto specs = dataset_columns(space);
  const Block block = make_block(table, options.providers(space.provider), space);
  std::string out;
  for (std::size_t c = 0; c < specs.size(); ++c) out += (c ? "," : "") + specs[c].name;
  out += '\n';
  for (std::size_t row = 0; row < block.rows; ++row) {
    for (std::size_t c = 0; c < specs.size(); ++c) {
      if (c) out += ',';
      append_value(out, specs[c], block.columns[c], row);
    }
    out += '\n';
  }
  return out;
}

MeasurementTable parse_dataset_csv(std::string_view text, const std::string& source,
                                   const DatasetOptions& options) {
  const Sheet sheet = read_sheet(text, source);
  if (sheet.rows.empty()) fail(Errc::corrupt_data, "{}: no rows under the header", source);
  const Provider& provider = options.providers(first_value(sheet, "provider", "native"));
  const ConfigSpace& space = provider.space(parse<Op>(first_value(sheet, "op", word(Op::gemm))));
  if (!options.device) {
    fail(Errc::invalid_argument, "{}: CSV carries no facts of the device; name it with --device", source);
  }
  TableBuilder builder(source, provider, space, *options.device, sheet.names, Columns::defaults_allowed);
  builder.add(block_of(sheet, dataset_columns(space), source));
  return builder.finish({});
}

}  // namespace kscout
