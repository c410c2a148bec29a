// Reads and writes datasets as CSV: one header line with our column names; an empty cell is null.
#include "core/csv.h"

#include <algorithm>

#include "core/fail.h"
#include "core/field_text.h"
#include "dataset/columns.h"
#include "dataset/dataset.h"

namespace kscout {

namespace {

void append_value(std::string& out, const ColumnSpec& spec, const ColumnValues& values, std::size_t row) {
  switch (spec.type) {
    case ColumnType::text:
      if (values.index[row] != ColumnValues::null_word) {
        append_csv(out, values.words[static_cast<std::size_t>(values.index[row])]);
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

/// The value of a column in the first row, or `otherwise` when the file lacks the column.
std::string first_value(const CsvSheet& sheet, std::string_view name, std::string_view otherwise) {
  const auto column = sheet.column(name);
  return column && !sheet.rows.empty() ? sheet.rows.front()[*column] : std::string(otherwise);
}

Block block_of(const CsvSheet& sheet, const std::vector<ColumnSpec>& all, const std::string& source) {
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
  if (table.configs.empty()) fail(Errc::invalid_argument, "a dataset needs at least one config");
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
  const CsvSheet sheet = read_csv(text, source);
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
