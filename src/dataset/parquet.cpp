#include "dataset/parquet.h"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <numeric>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <arrow/io/memory.h>
#include <arrow/record_batch.h>
#include <arrow/util/base64.h>
#include <arrow/util/key_value_metadata.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/writer.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>
#include <parquet/schema.h>

#include "core/fail.h"
#include "core/files.h"
#include "core/hash.h"
#include "core/parquet_checksum.h"

namespace kscout {

namespace {

/// Rows that a reader decodes at once.
constexpr std::int64_t kBatchRows = 1 << 16;

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
    if (!encoded) wrong_type(*array.type());
    const auto& words = *encoded->dictionary();
    if (const auto* plain = dynamic_cast<const arrow::StringArray*>(&words))
      return append_encoded(*encoded, *plain);
    if (const auto* large = dynamic_cast<const arrow::LargeStringArray*>(&words))
      return append_encoded(*encoded, *large);
    wrong_type(*array.type());
  }

  template <class Array>
  void append_encoded(const arrow::DictionaryArray& encoded, const Array& words) {
    std::vector<std::int32_t> index_of(static_cast<std::size_t>(words.length()), ColumnValues::null_word);
    for (std::int64_t i = 0; i < encoded.length(); ++i) {
      if (encoded.IsNull(i)) {
        values_.index.push_back(ColumnValues::null_word);
        continue;
      }
      const std::int64_t word = encoded.GetValueIndex(i);
      std::int32_t& index = index_of[static_cast<std::size_t>(word)];
      if (index == ColumnValues::null_word) index = word_index(words.GetView(word));
      values_.index.push_back(index);
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
/// compress its footer.
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
    std::size_t packed_bytes = 0, bytes = 0;  // of all texts
    for (std::int64_t i = 0; i < schema.metadata()->size(); ++i) {
      const std::string &key = schema.metadata()->key(i), &text = schema.metadata()->value(i);
      if (key.ends_with(kPackedEnding)) {
        const std::string& whole = header.metadata[key.substr(0, key.size() - kPackedEnding.size())] =
            unpacked(key, text, source);
        packed_bytes += text.size(), bytes += whole.size();
        check_decompressed(packed_bytes, bytes, source);
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
  if (result.status().IsOutOfMemory()) {
    fail(Errc::corrupt_data,
         "{}: its pages become too large when decompressed ({}); if they should, compress the file less",
         source, result.status().message());
  }
  if (!result.ok()) {
    fail(Errc::corrupt_data, "{}: no readable Parquet file: {}; restore it or measure again", source,
         result.status().message());
  }
  return std::move(result).ValueUnsafe();
}

/// Memory for what Arrow decompresses from a file, as check_decompressed() limits it: a page's header may
/// announce gigabytes.
struct PagePool {
  explicit PagePool(std::size_t file_bytes)
      : limited(&counted, static_cast<std::int64_t>(std::max(
                              kSafeBytes, std::min(file_bytes, std::size_t{1} << 40) * kMaxRatio))) {}
  arrow::ProxyMemoryPool counted{arrow::default_memory_pool()};
  arrow::CappedMemoryPool limited;
};

/// Opens a file; pages with a checksum are verified when they are read. Texts are read as words and indices:
/// a word is stored once per row group.
std::unique_ptr<parquet::arrow::FileReader> open_reader(const std::string& path, const std::string& source,
                                                        arrow::MemoryPool* pool) {
  parquet::ReaderProperties properties(pool);
  properties.set_page_checksum_verification(true);
  auto file = value_or_corrupt(arrow::io::ReadableFile::Open(path), source);
  parquet::arrow::FileReaderBuilder builder;
  builder.memory_pool(pool);
  if (const auto status = builder.Open(std::move(file), properties); !status.ok())
    value_or_corrupt(arrow::Result<bool>(status), source);
  parquet::ArrowReaderProperties as_arrow;
  as_arrow.set_batch_size(kBatchRows);
  as_arrow.set_pre_buffer(false);  // it would keep all bytes of the file
  const auto* const columns = builder.raw_reader()->metadata()->schema();
  for (int c = 0; c < columns->num_columns(); ++c)
    as_arrow.set_read_dictionary(c, columns->Column(c)->physical_type() == parquet::Type::BYTE_ARRAY);
  return value_or_corrupt(builder.properties(as_arrow)->Build(), source);
}

/// Calls `use`; errors of the Parquet library name `source`.
template <class Use>
auto or_corrupt(const std::string& source, Use&& use) {
  try {
    return use();
  } catch (const parquet::ParquetStatusException& error) {
    value_or_corrupt(arrow::Result<bool>(error.status()), source);
    throw;
  } catch (const parquet::ParquetException& error) {
    fail(Errc::corrupt_data, "{}: no readable Parquet file: {}; restore it or measure again", source,
         error.what());
  }
}

/// Values of any type as text; null is empty.
std::vector<std::string> texts_of(const arrow::Array& column) {
  std::vector<std::string> texts;
  const auto* const encoded = dynamic_cast<const arrow::DictionaryArray*>(&column);
  for (std::int64_t i = 0; i < column.length(); ++i) {
    if (column.IsNull(i)) {
      texts.emplace_back();
      continue;
    }
    const auto scalar =
        encoded ? encoded->dictionary()->GetScalar(encoded->GetValueIndex(i)) : column.GetScalar(i);
    require(scalar.status(), "Parquet column");
    texts.push_back((*scalar)->ToString());
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

/// Zstandard, with every column of a row group in one page (Arrow's default begins a page every 20,000 rows),
/// and without the columns' minimum and maximum, which are a quarter of the footer. Files become smaller and
/// take longer to write (docs/formats/dataset.md).
std::shared_ptr<parquet::WriterProperties> small_file(const std::vector<ColumnSpec>& specs,
                                                      const Block& block, int level) {
  constexpr std::int64_t kPageBytes = 1 << 30;  // page sizes are 32-bit integers
  const auto rows = static_cast<std::int64_t>(std::max<std::size_t>(block.rows, 1));
  parquet::WriterProperties::Builder builder;
  builder.compression(arrow::Compression::ZSTD)
      ->compression_level(level)
      ->max_row_group_length(rows)
      ->max_rows_per_page(rows)
      ->data_pagesize(kPageBytes)
      ->disable_statistics()
      ->enable_page_checksum();
  for (std::size_t c = 0; c < specs.size(); ++c) {
    if (mostly_distinct(block.columns[c].number)) builder.disable_dictionary(specs[c].name);
  }
  return builder.build();
}

std::shared_ptr<arrow::DataType> arrow_type(ColumnType type) {
  switch (type) {
    case ColumnType::text:
      return arrow::utf8();
    case ColumnType::int64:
      return arrow::int64();
    case ColumnType::int32:
      return arrow::int32();
    case ColumnType::float64:
      return arrow::float64();
    case ColumnType::boolean:
      break;
  }
  return arrow::boolean();
}

Block empty_block(const std::vector<ColumnSpec>& specs) {
  return {0, std::vector<ColumnValues>(specs.size())};
}

std::shared_ptr<arrow::KeyValueMetadata> packed_texts(const std::map<std::string, std::string>& metadata) {
  auto texts = std::make_shared<arrow::KeyValueMetadata>();
  for (const auto& [key, value] : metadata) add_text(*texts, key, value);
  return texts;
}

/// Passes bytes on and keeps their checksum; the bytes after `begin_end()` are kept back.
class ChecksumStream : public arrow::io::OutputStream {
 public:
  explicit ChecksumStream(std::function<void(std::string_view)> write) : write_(std::move(write)) {}

  arrow::Status Write(const void* data, std::int64_t size) override {
    const std::string_view bytes(static_cast<const char*>(data), static_cast<std::size_t>(size));
    written_ += size;
    if (keeps_) {
      end_ += bytes;
      return arrow::Status::OK();
    }
    checksum_ = crc32_of(bytes, checksum_);
    write_(bytes);
    return arrow::Status::OK();
  }
  arrow::Status Close() override { return arrow::Status::OK(); }
  bool closed() const override { return false; }
  arrow::Result<std::int64_t> Tell() const override { return written_; }

  void begin_end() { keeps_ = true; }
  void finish() { write_(end_with_parquet_checksum(end_, checksum_)); }

 private:
  std::function<void(std::string_view)> write_;
  std::int64_t written_ = 0;
  std::uint32_t checksum_ = 0;
  bool keeps_ = false;
  std::string end_;
};

}  // namespace

struct ParquetWriter::State {
  std::vector<ColumnSpec> specs;
  std::shared_ptr<ChecksumStream> sink;
  std::optional<Block> first;  ///< not written yet: a file of one row group is compressed more
  std::unique_ptr<parquet::arrow::FileWriter> writer;

  /// Creates the file for blocks like `block`.
  void open(const Block& block, int level) {
    arrow::FieldVector fields;
    for (const ColumnSpec& spec : specs)
      fields.push_back(arrow::field(spec.name, arrow_type(spec.type), spec.nullable));
    auto opened =
        parquet::arrow::FileWriter::Open(*arrow::schema(std::move(fields)), arrow::default_memory_pool(),
                                         sink, small_file(specs, block, level));
    require(opened.status(), "Parquet writer");
    writer = std::move(*opened);
  }

  /// Column by column, so that one column exists twice.
  void write(const Block& block) {
    require(writer->NewRowGroup(), "Parquet writer");
    if (block.rows == 0) return;
    for (std::size_t c = 0; c < specs.size(); ++c)
      require(writer->WriteColumnChunk(*to_arrow(specs[c].type, block.columns[c], block.rows)),
              "Parquet writer");
  }
};

ParquetWriter::ParquetWriter(std::vector<ColumnSpec> specs, std::function<void(std::string_view)> write)
    : state_(std::make_unique<State>()) {
  state_->specs = std::move(specs);
  state_->sink = std::make_shared<ChecksumStream>(std::move(write));
}

ParquetWriter::~ParquetWriter() = default;

void ParquetWriter::add(Block block) {
  constexpr int kFastLevel = 9;
  if (!state_->writer && !state_->first) {
    state_->first = std::move(block);
    return;
  }
  if (!state_->writer) {
    state_->open(*state_->first, kFastLevel);
    state_->write(*std::exchange(state_->first, std::nullopt));
  }
  state_->write(block);
}

void ParquetWriter::finish(const std::map<std::string, std::string>& metadata) {
  constexpr int kBestLevel = 22;
  if (!state_->writer) {
    if (!state_->first) add(empty_block(state_->specs));
    state_->open(*state_->first, kBestLevel);
    state_->write(*std::exchange(state_->first, std::nullopt));
  }
  require(state_->writer->AddKeyValueMetadata(packed_texts(metadata)), "Parquet writer");
  state_->sink->begin_end();
  require(state_->writer->Close(), "Parquet writer");
  state_->sink->finish();
}

std::string parquet_bytes(const std::vector<ColumnSpec>& specs, const Block& block,
                          const std::map<std::string, std::string>& metadata) {
  std::string bytes;
  ParquetWriter writer(specs, [&](std::string_view part) { bytes += part; });
  writer.add(block);
  writer.finish(metadata);
  return bytes;
}

struct ParquetReader::State {
  std::string source;
  std::optional<PagePool> pool;  ///< outlives what is read
  std::unique_ptr<parquet::arrow::FileReader> reader;
  ParquetHeader header;
  std::unique_ptr<arrow::RecordBatchReader> batches;
};

ParquetReader::ParquetReader(const std::string& path, const std::string& source)
    : state_(std::make_unique<State>()) {
  state_->source = source;
  or_corrupt(source, [&] {
    check_parquet_checksum(path);
    std::error_code ignored;  // opening the file reports it
    const auto bytes = std::filesystem::file_size(path, ignored);
    state_->pool.emplace(ignored ? 0 : bytes);
    state_->reader = open_reader(path, source, &state_->pool->limited);
    std::shared_ptr<arrow::Schema> schema;
    if (const auto status = state_->reader->GetSchema(&schema); !status.ok())
      fail(Errc::corrupt_data, "{}: {}", source, status.message());
    state_->header = header_of(*schema, source);
    state_->header.rows = state_->reader->parquet_reader()->metadata()->num_rows();
  });
}

ParquetReader::ParquetReader(ParquetReader&&) noexcept = default;
ParquetReader::~ParquetReader() = default;

const ParquetHeader& ParquetReader::header() const noexcept { return state_->header; }

std::shared_ptr<arrow::RecordBatch> ParquetReader::next_batch(const std::vector<int>& columns) {
  return or_corrupt(state_->source, [&] {
    if (!state_->batches) {
      std::vector<int> groups(static_cast<std::size_t>(state_->reader->num_row_groups()));
      std::iota(groups.begin(), groups.end(), 0);
      state_->batches =
          value_or_corrupt(state_->reader->GetRecordBatchReader(groups, columns), state_->source);
    }
    std::shared_ptr<arrow::RecordBatch> batch;
    if (const auto status = state_->batches->ReadNext(&batch); !status.ok())
      value_or_corrupt(arrow::Result<bool>(status), state_->source);
    return batch;
  });
}

std::optional<Block> ParquetReader::next(const std::vector<ColumnSpec>& specs) {
  const auto at = [&](const ColumnSpec& spec) {
    return static_cast<int>(std::ranges::find(state_->header.names, spec.name) -
                            state_->header.names.begin());
  };
  std::vector<int> columns;
  for (const ColumnSpec& spec : specs) columns.push_back(at(spec));
  const auto batch = next_batch(columns);
  if (!batch) return std::nullopt;
  Block block{static_cast<std::size_t>(batch->num_rows()), {}};
  for (std::size_t c = 0; c < specs.size(); ++c) {
    ColumnReader column(state_->source, specs[c]);
    column.append(*batch->column(static_cast<int>(c)));
    block.columns.push_back(column.take());
  }
  return block;
}

void read_parquet_as_text(const std::string& path, const std::string& source,
                          const std::function<std::vector<bool>(const ParquetHeader&)>& open,
                          const std::function<void(const std::vector<std::string_view>&)>& row) {
  ParquetReader reader(path, source);
  const std::vector<bool> wanted = open(reader.header());
  std::vector<int> positions;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i]) positions.push_back(static_cast<int>(i));
  }
  while (const auto batch = reader.next_batch(positions)) {
    std::vector<std::vector<std::string>> texts;
    for (const auto& column : batch->columns()) texts.push_back(texts_of(*column));
    std::vector<std::string_view> cells(wanted.size());
    for (std::size_t r = 0; r < static_cast<std::size_t>(batch->num_rows()); ++r) {
      for (std::size_t c = 0; c < texts.size(); ++c)
        cells[static_cast<std::size_t>(positions[c])] = texts[c][r];
      row(cells);
    }
  }
}

}  // namespace kscout
