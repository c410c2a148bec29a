#pragma once
/// \file
/// Reads and writes blocks of columns in Parquet: the only code that uses Arrow's reader and writer.
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dataset/columns.h"

namespace arrow {
class RecordBatch;
}

namespace kscout {

/// The header of a Parquet file.
struct ParquetHeader {
  std::map<std::string, std::string> metadata;  ///< of the file; compressed texts are unpacked
  std::vector<std::string> names;               ///< of the columns
  std::int64_t rows = 0;
};

/// Encodes a Parquet file, as small as zstd makes it, with checksums of pages and of all bytes
/// (core/parquet_checksum.h). Texts of `metadata` above 2,000 bytes are stored as base64 of gzip, under their
/// key with ".gz".
std::string parquet_bytes(const std::vector<ColumnSpec>& specs, const Block& block,
                          const std::map<std::string, std::string>& metadata);

/// Writes a Parquet file of any size, one row group per block. A file of one row group is as small as zstd
/// makes it and has the bytes of parquet_bytes(); larger files are compressed less, which is faster.
///
///     ParquetWriter writer(specs, [&](std::string_view bytes) { file.write(bytes); });
///     writer.add(block);
///     writer.finish(metadata);
class ParquetWriter {
 public:
  ParquetWriter(std::vector<ColumnSpec> specs, std::function<void(std::string_view)> write);
  ~ParquetWriter();

  /// Columns in the order of the specs. The first block decides which columns have dictionaries.
  void add(Block block);
  void finish(const std::map<std::string, std::string>& metadata);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Reads a Parquet file block by block: memory follows the pages of a row group, not the rows of the file.
/// Verifies the checksums that the file has. Throws corrupt_data naming `source`.
class ParquetReader {
 public:
  ParquetReader(const std::string& path, const std::string& source);
  ParquetReader(ParquetReader&&) noexcept;
  ~ParquetReader();

  const ParquetHeader& header() const noexcept;
  /// The next rows of these columns, in the order of `specs`, which is the same in every call; nothing at the
  /// end.
  std::optional<Block> next(const std::vector<ColumnSpec>& specs);

 private:
  friend void read_parquet_as_text(const std::string& path, const std::string& source,
                                   const std::function<std::vector<bool>(const ParquetHeader&)>& open,
                                   const std::function<void(const std::vector<std::string_view>&)>& row);
  std::shared_ptr<arrow::RecordBatch> next_batch(const std::vector<int>& columns);

  struct State;
  std::unique_ptr<State> state_;
};

/// Reads files of other tools, whose columns may have any type. `open` selects the wanted
/// columns; `row` receives the cells of all columns as text, empty where a cell is null or not wanted.
void read_parquet_as_text(const std::string& path, const std::string& source,
                          const std::function<std::vector<bool>(const ParquetHeader&)>& open,
                          const std::function<void(const std::vector<std::string_view>&)>& row);

}  // namespace kscout
