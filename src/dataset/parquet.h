#pragma once
/// \file
/// Reads and writes blocks of columns in Parquet: the only code that uses Arrow's reader and writer.
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <kscout/measurement.h>
#include <kscout/provider.h>

#include "dataset/columns.h"

namespace kscout {

// ---- Orders the rows of a file by signature, then by kernel, then by problem.
//
//     write(rows_in_file_order(table, provider));
//
// The columns of a kernel then change only a few hundred times in a file, and sizes ascend. zstd compresses
// this better than the order of measuring (docs/formats/dataset.md). Equal rows in any order also give equal
// files.

/// Sorts signatures and kernels by their text; problems by the sizes of their weights (n, k of a GEMM), then
/// by their other sizes.
MeasurementTable rows_in_file_order(const MeasurementTable& table, const Provider& provider);

/// The header of a Parquet file.
struct ParquetHeader {
  std::map<std::string, std::string> metadata;  ///< of the file; compressed texts are unpacked
  std::vector<std::string> names;               ///< of the columns
};

/// Encodes a Parquet file, as small as zstd makes it, with checksums of pages and of all bytes
/// (core/parquet_checksum.h); units and meanings go into the columns' metadata. Texts of `metadata` above
/// 2,000 bytes are stored as base64 of gzip, under their key with ".gz".
std::string parquet_bytes(const std::vector<ColumnSpec>& specs, const Block& block,
                          const std::map<std::string, std::string>& metadata);

/// Reads a file and verifies the checksums that it has. `open` receives the header and returns the required
/// type of each column (or throws); then `block` receives the rows, one row group after another. Throws
/// corrupt_data naming `source`.
void read_parquet(const std::string& path, const std::string& source,
                  const std::function<std::vector<ColumnSpec>(const ParquetHeader&)>& open,
                  const std::function<void(const Block&)>& block);

/// Reads files of other tools, whose columns may have any type, in the same way. `open` selects the wanted
/// columns; `row` receives the cells of all columns as text, empty where a cell is null or not wanted.
void read_parquet_as_text(const std::string& path, const std::string& source,
                          const std::function<std::vector<bool>(const ParquetHeader&)>& open,
                          const std::function<void(const std::vector<std::string_view>&)>& row);

}  // namespace kscout
