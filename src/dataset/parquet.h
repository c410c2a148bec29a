#pragma once
/// \file
/// Blocks of columns in Parquet: the only code that knows Arrow's reader and writer of datasets.
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <kscout/measurement.h>
#include <kscout/provider.h>

#include "dataset/columns.h"

namespace kscout {

// ---- The order in which files keep rows: by signature, then by kernel, then by problem.
//
//     write(rows_in_file_order(table, provider));
//
// Columns of one kernel then change a few hundred times in a file, and sizes come in ascending order, which
// zstd shortens further than the order of measuring (docs/formats/dataset.md). And equal rows give
// equal files, whatever order they came in.

/// Signatures and kernels by their words and names; problems by the shape of their weights (n, k of a GEMM),
/// then by their other sizes.
MeasurementTable rows_in_file_order(const MeasurementTable& table, const Provider& provider);

/// What a Parquet file tells before its rows.
struct ParquetHeader {
  std::map<std::string, std::string> metadata;  ///< of the file; what is stored compressed is text again
  std::vector<std::string> names;               ///< of its columns
};

/// The bytes of a Parquet file that is as small as zstd makes it; units and meanings go into the columns'
/// metadata. Texts of `metadata` above 2,000 bytes are stored as base64 of gzip, under their key with ".gz".
std::string parquet_bytes(const std::vector<ColumnSpec>& specs, const Block& block,
                          const std::map<std::string, std::string>& metadata);

/// Reads a file: `open` gets the header and says which type each column must have (or throws); then `block`
/// gets the rows, group by group. Throws corrupt_data naming `source`.
void read_parquet(const std::string& path, const std::string& source,
                  const std::function<std::vector<ColumnSpec>(const ParquetHeader&)>& open,
                  const std::function<void(const Block&)>& block);

/// The same for files of others, whose types may be any: `open` says which columns are wanted, `row` gets the
/// cells of all columns as text, empty where a cell is null or not wanted.
void read_parquet_as_text(const std::string& path, const std::string& source,
                          const std::function<std::vector<bool>(const ParquetHeader&)>& open,
                          const std::function<void(const std::vector<std::string_view>&)>& row);

}  // namespace kscout
