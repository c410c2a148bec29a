#include "dataset/parquet.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <string>
#include <tuple>
#include <unordered_set>
#include <vector>

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <arrow/io/memory.h>
#include <arrow/util/base64.h>
#include <arrow/util/key_value_metadata.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/writer.h>
#include <parquet/exception.h>

#include "core/fail.h"
#include "core/field_text.h"
#include "core/files.h"
#include "core/parquet_checksum.h"
#include "dataset/columns.h"
#include "op/problem_sets.h"

namespace kscout {

namespace {

/// For each key, the number of smaller distinct keys.
template <class Key>
std::vector<std::uint32_t> ranks_of(const std::vector<Key>& keys) {
  std::vector<std::size_t> order(keys.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) -> const Key& { return keys[i]; });
  std::vector<std::uint32_t> ranks(keys.size());
  for (std::size_t i = 1; i < order.size(); ++i)
    ranks[order[i]] = ranks[order[i - 1]] + (keys[order[i - 1]] < keys[order[i]]);
  return ranks;
}

std::string words_of(const Signature& signature) {
  std::string text;
  for_each_field<Signature>([&](const auto& field) { text += field_text(signature.*field.member) + " "; });
  return text;
}

/// Sort key of a row in the file.
struct Place {
  std::uint32_t signature, kernel, problem;
  std::int32_t pass;
  std::size_t row;
  auto operator<=>(const Place&) const = default;
};

std::vector<Place> places_of(const MeasurementTable& table, const Provider& provider) {
  const auto [signatures, signature_of_problem] = signatures_of(table.problems);
  std::vector<std::string> words;
  for (const Signature& signature : signatures) words.push_back(words_of(signature));
  std::vector<std::tuple<ProblemSizes, ProblemSizes, std::string>> problems;
  for (const Problem& problem : table.problems)
    problems.emplace_back(group_of(problem, SplitBy::weights), sizes_of(problem), print(problem));
  const auto of_signature = ranks_of(words), of_problem = ranks_of(problems);
  const ColumnValues names = kernel_names(table, provider);
  const auto of_name = ranks_of(names.words);
  std::vector<Place> places;
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    const auto& row = table.rows[r];
    places.push_back({of_signature[signature_of_problem[row.problem]],
                      of_name[static_cast<std::size_t>(names.index[r])], of_problem[row.problem],
                      row.measured.pass, r});
  }
  return places;
}

}  // namespace

MeasurementTable rows_in_file_order(const MeasurementTable& table, const Provider& provider) {
  std::vector<Place> places = places_of(table, provider);
  std::ranges::sort(places);
  MeasurementTable out = table;
  for (std::size_t r = 0; r < places.size(); ++r) out.rows[r] = table.rows[places[r].row];
  return out;
}

namespace {

void require(const arrow::Status& status, std::string_view what) {
  if (!status.ok()) fail(Errc::device_failure, "{}: {}", what, status.ToString());
}

template <class Builder, class Append>
std::shared_ptr<arrow::Array> build(std::size_t rows, Append&& append) {
  Builder builder;
  require(builder.Reserve(static_cast<std::int64_t>(rows)), "Parquet column");
  for (std::size_t r = 0; r < rows; ++r) require(append(builder, r), "Parquet column");
  std::shared_ptr<arrow::Array> array;
  require(builder.Finish(&array), "Parquet column");
  return array;
}

template <class Builder>
std::shared_ptr<arrow::Array> build_whole(const ColumnValues& values, std::size_t rows) {
  return build<Builder>(rows, [&](Builder& builder, std::size_t r) {
    using V = typename Builder::value_type;
    return values.whole[r] == ColumnValues::null_whole ? builder.AppendNull()
                                                       : builder.Append(static_cast<V>(values.whole[r]));
  });
}

std::shared_ptr<arrow::Array> to_arrow(ColumnType type, const ColumnValues& values, std::size_t rows) {
  switch (type) {
    case ColumnType::int64:
      return build_whole<arrow::Int64Builder>(values, rows);
    case ColumnType::int32:
      return build_whole<arrow::Int32Builder>(values, rows);
    case ColumnType::boolean:
      return build<arrow::BooleanBuilder>(rows, [&](arrow::BooleanBuilder& builder, std::size_t r) {
        return values.whole[r] == ColumnValues::null_whole ? builder.AppendNull()
                                                           : builder.Append(values.whole[r] != 0);
      });
    case ColumnType::float64:
      return build<arrow::DoubleBuilder>(rows, [&](arrow::DoubleBuilder& builder, std::size_t r) {
        return values.number[r] != values.number[r] ? builder.AppendNull() : builder.Append(values.number[r]);
      });
    case ColumnType::text:
      break;
  }
  return build<arrow::StringBuilder>(rows, [&](arrow::StringBuilder& builder, std::size_t r) {
    const std::int32_t word = values.index[r];
    return word == ColumnValues::null_word ? builder.AppendNull()
                                           : builder.Append(values.words[static_cast<std::size_t>(word)]);
  });
}

/// Reads arrays of one column into a ColumnValues. Types must match exactly, except that texts may be plain,
/// large or dictionary-encoded.
class ColumnReader {
 public:
  ColumnReader(const std::string& source, const ColumnSpec& spec) : source_(source), spec_(spec) {}

  void append(const arrow::Array& array) {
    switch (spec_.type) {
      case ColumnType::int64:
        return append_whole<arrow::Int64Array>(array);
      case ColumnType::int32:
        return append_whole<arrow::Int32Array>(array);
      case ColumnType::boolean:
        return append_whole<arrow::BooleanArray>(array);
      case ColumnType::float64: {
        const auto& numbers = cast<arrow::DoubleArray>(array);
        for (std::int64_t i = 0; i < array.length(); ++i) {
          values_.number.push_back(numbers.IsNull(i) ? Measurement::unknown : numbers.Value(i));
        }
        return;
      }
      case ColumnType::text:
        return append_text(array);
    }
  }
  ColumnValues take() { return std::move(values_); }

 private:
  [[noreturn]] void wrong_type(const arrow::DataType& found) const {
    fail(Errc::corrupt_data,
         "{}: column '{}' is of type {}, must be {}; convert it, or write the dataset again", source_,
         spec_.name, found.ToString(), word(spec_.type));
  }

  template <class Array>
  const Array& cast(const arrow::Array& array) const {
    const auto* typed = dynamic_cast<const Array*>(&array);
    if (!typed) wrong_type(*array.type());
    return *typed;
  }

  template <class Array>
  void append_whole(const arrow::Array& array) {
    const auto& wholes = cast<Array>(array);
    for (std::int64_t i = 0; i < array.length(); ++i) {
      values_.whole.push_back(wholes.IsNull(i) ? ColumnValues::null_whole : std::int64_t{wholes.Value(i)});
    }
  }

  template <class Array>
  void append_words(const Array& texts) {
    for (std::int64_t i = 0; i < texts.length(); ++i) {
      if (texts.IsNull(i)) {
        values_.index.push_back(ColumnValues::null_word);
      } else {
        values_.index.push_back(word_index(texts.GetView(i)));
      }
    }
  }

  void append_text(const arrow::Array& array) {
    if (const auto* plain = dynamic_cast<const arrow::StringArray*>(&array)) return append_words(*plain);
    if (const auto* large = dynamic_cast<const arrow::LargeStringArray*>(&array)) return append_words(*large);
    const auto* encoded = dynamic_cast<const arrow::DictionaryArray*>(&array);
    const auto* words =
        encoded ? dynamic_cast<const arrow::StringArray*>(encoded->dictionary().get()) : nullptr;
    if (!words) wrong_type(*array.type());
    for (std::int64_t i = 0; i < encoded->length(); ++i) {
      values_.index.push_back(encoded->IsNull(i) ? ColumnValues::null_word
                                                 : word_index(words->GetView(encoded->GetValueIndex(i))));
    }
  }

  std::int32_t word_index(std::string_view word) {
    // Most columns have runs of equal words, so the previous word is tried first.
    if (last_ >= 0 && values_.words[static_cast<std::size_t>(last_)] == word) return last_;
    const auto [at, is_new] =
        known_.try_emplace(std::string(word), static_cast<std::int32_t>(values_.words.size()));
    if (is_new) values_.words.emplace_back(word);
    return last_ = at->second;
  }

  const std::string& source_;
  const ColumnSpec& spec_;
  ColumnValues values_;
  std::unordered_map<std::string, std::int32_t> known_;
  std::int32_t last_ = -1;
};

/// Texts longer than this are stored as base64 of gzip, under their key with kPackedEnding: Parquet does not
/// compress its footer, and Arrow stores these texts twice there.
constexpr std::size_t kLongText = 2000;
constexpr std::string_view kPackedEnding = ".gz";

void add_text(arrow::KeyValueMetadata& to, const std::string& key, const std::string& text) {
  if (text.size() <= kLongText) return to.Append(key, text);
  to.Append(key + std::string(kPackedEnding), arrow::util::base64_encode(gzip(text)));
}

std::string unpacked(const std::string& key, const std::string& packed, const std::string& source) {
  const std::string what = fmt::format("{}: {}", source, key);
  auto bytes = arrow::util::base64_decode(packed);
  if (!bytes.ok()) fail(Errc::corrupt_data, "{}: no base64; restore the file", what);
  return gunzip(*bytes, what);
}

ParquetHeader header_of(const arrow::Schema& schema, const std::string& source) {
  ParquetHeader header;
  if (schema.metadata()) {
    for (std::int64_t i = 0; i < schema.metadata()->size(); ++i) {
      const std::string &key = schema.metadata()->key(i), &text = schema.metadata()->value(i);
      if (key.ends_with(kPackedEnding)) {
        header.metadata[key.substr(0, key.size() - kPackedEnding.size())] = unpacked(key, text, source);
      } else {
        header.metadata[key] = text;
      }
    }
  }
  header.names = schema.field_names();
  return header;
}

template <class T>
T value_or_corrupt(arrow::Result<T> result, const std::string& source) {
  if (!result.ok()) {
    fail(Errc::corrupt_data, "{}: no readable Parquet file: {}; restore it or measure again", source,
         result.status().message());
  }
  return std::move(result).ValueUnsafe();
}

Block read_group(parquet::arrow::FileReader& reader, int group, const std::vector<ColumnSpec>& specs,
                 const std::string& source) {
  const std::shared_ptr<arrow::Table> table = value_or_corrupt(reader.ReadRowGroup(group), source);
  Block block{static_cast<std::size_t>(table->num_rows()), {}};
  for (std::size_t c = 0; c < specs.size(); ++c) {
    ColumnReader column(source, specs[c]);
    for (const auto& chunk : table->column(static_cast<int>(c))->chunks()) column.append(*chunk);
    block.columns.push_back(column.take());
  }
  return block;
}

/// Opens a file; pages with a checksum are verified when they are read.
std::unique_ptr<parquet::arrow::FileReader> open_reader(const std::string& path, const std::string& source) {
  parquet::ReaderProperties properties;
  properties.set_page_checksum_verification(true);
  auto file = value_or_corrupt(arrow::io::ReadableFile::Open(path), source);
  parquet::arrow::FileReaderBuilder builder;
  if (const auto status = builder.Open(std::move(file), properties); !status.ok())
    value_or_corrupt(arrow::Result<bool>(status), source);
  return value_or_corrupt(builder.Build(), source);
}

/// Verifies the checksum of a file, opens it and calls `use(reader, header)`; errors name `source`.
template <class Use>
void with_reader(const std::string& path, const std::string& source, Use&& use) {
  try {
    check_parquet_checksum(path);
    const auto reader = open_reader(path, source);
    std::shared_ptr<arrow::Schema> schema;
    if (const auto status = reader->GetSchema(&schema); !status.ok()) {
      fail(Errc::corrupt_data, "{}: {}", source, status.message());
    }
    use(*reader, header_of(*schema, source));
  } catch (const parquet::ParquetException& error) {
    fail(Errc::corrupt_data, "{}: no readable Parquet file: {}; restore it or measure again", source,
         error.what());
  }
}

/// Values of any type as text; null is empty.
std::vector<std::string> texts_of(const arrow::ChunkedArray& column) {
  std::vector<std::string> texts;
  for (const auto& chunk : column.chunks()) {
    const auto* const encoded = dynamic_cast<const arrow::DictionaryArray*>(chunk.get());
    for (std::int64_t i = 0; i < chunk->length(); ++i) {
      if (chunk->IsNull(i)) {
        texts.emplace_back();
        continue;
      }
      const auto scalar =
          encoded ? encoded->dictionary()->GetScalar(encoded->GetValueIndex(i)) : chunk->GetScalar(i);
      require(scalar.status(), "Parquet column");
      texts.push_back((*scalar)->ToString());
    }
  }
  return texts;
}

/// Whether more than half of a column's numbers are distinct. A dictionary of such a column would be larger
/// than the plain numbers: it would hold them all, plus one index per row.
bool mostly_distinct(const std::vector<double>& numbers) {
  std::unordered_set<std::uint64_t> bits;
  for (const double number : numbers) bits.insert(std::bit_cast<std::uint64_t>(number));
  return 2 * bits.size() > numbers.size();
}

/// Zstandard at its highest level, with every column in one row group and one page (Arrow's default begins a
/// page every 20,000 rows). Files become smaller and take longer to write (docs/formats/dataset.md).
std::shared_ptr<parquet::WriterProperties> small_file(const std::vector<ColumnSpec>& specs,
                                                      const Block& block) {
  constexpr int kBestLevel = 22;
  constexpr std::int64_t kPageBytes = 1 << 30;  // page sizes are 32-bit integers
  const auto rows = static_cast<std::int64_t>(std::max<std::size_t>(block.rows, 1));
  parquet::WriterProperties::Builder builder;
  builder.compression(arrow::Compression::ZSTD)
      ->compression_level(kBestLevel)
      ->max_row_group_length(rows)
      ->max_rows_per_page(rows)
      ->data_pagesize(kPageBytes)
      ->enable_page_checksum();
  for (std::size_t c = 0; c < specs.size(); ++c) {
    if (mostly_distinct(block.columns[c].number)) builder.disable_dictionary(specs[c].name);
  }
  return builder.build();
}

}  // namespace

std::string parquet_bytes(const std::vector<ColumnSpec>& specs, const Block& block,
                          const std::map<std::string, std::string>& metadata) {
  arrow::FieldVector fields;
  arrow::ArrayVector arrays;
  for (std::size_t c = 0; c < specs.size(); ++c) {
    arrays.push_back(to_arrow(specs[c].type, block.columns[c], block.rows));
    fields.push_back(
        arrow::field(specs[c].name, arrays.back()->type(), specs[c].nullable,
                     arrow::key_value_metadata({{"unit", specs[c].unit}, {"meaning", specs[c].help}})));
  }
  auto about = std::make_shared<arrow::KeyValueMetadata>();
  for (const auto& [key, value] : metadata) add_text(*about, key, value);
  const auto table = arrow::Table::Make(arrow::schema(std::move(fields), std::move(about)), std::move(arrays),
                                        static_cast<std::int64_t>(block.rows));
  const auto properties = small_file(specs, block);
  const auto arrow_properties = parquet::ArrowWriterProperties::Builder().store_schema()->build();
  auto sink = arrow::io::BufferOutputStream::Create();
  require(sink.status(), "Parquet writer");
  require(parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), *sink,
                                     properties->max_row_group_length(), properties, arrow_properties),
          "Parquet writer");
  auto bytes = (*sink)->Finish();
  require(bytes.status(), "Parquet writer");
  return with_parquet_checksum((*bytes)->ToString());
}

void read_parquet(const std::string& path, const std::string& source,
                  const std::function<std::vector<ColumnSpec>(const ParquetHeader&)>& open,
                  const std::function<void(const Block&)>& block) {
  with_reader(path, source, [&](parquet::arrow::FileReader& reader, const ParquetHeader& header) {
    const auto specs = open(header);
    for (int group = 0; group < reader.num_row_groups(); ++group)
      block(read_group(reader, group, specs, source));
  });
}

void read_parquet_as_text(const std::string& path, const std::string& source,
                          const std::function<std::vector<bool>(const ParquetHeader&)>& open,
                          const std::function<void(const std::vector<std::string_view>&)>& row) {
  with_reader(path, source, [&](parquet::arrow::FileReader& reader, const ParquetHeader& header) {
    const std::vector<bool> wanted = open(header);
    std::vector<int> positions;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i]) positions.push_back(static_cast<int>(i));
    }
    for (int group = 0; group < reader.num_row_groups(); ++group) {
      const auto table = value_or_corrupt(reader.ReadRowGroup(group, positions), source);
      std::vector<std::vector<std::string>> texts;
      for (const auto& column : table->columns()) texts.push_back(texts_of(*column));
      std::vector<std::string_view> cells(wanted.size());
      for (std::size_t r = 0; r < static_cast<std::size_t>(table->num_rows()); ++r) {
        for (std::size_t c = 0; c < texts.size(); ++c)
          cells[static_cast<std::size_t>(positions[c])] = texts[c][r];
        row(cells);
      }
    }
  });
}

}  // namespace kscout
