#pragma once
/// \file
/// Reads and writes measurements: Parquet to store, CSV to exchange.
///
///     write_dataset("data/gemm_fp32_zen3-2c.parquet", table);
///     const MeasurementTable table = read_dataset("data/gemm_fp32_zen3-2c.parquet");
///
/// One file holds one op, provider and device. docs/formats/dataset.md lists columns, types and units, which
/// come from the field lists and the provider's axes. Reading checks every value; the first invalid one
/// raises an Error (corrupt_data) that names file, row, column, value and remedy. Rows count from 1.
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <kscout/measurement.h>
#include <kscout/provider.h>

namespace kscout {

/// Version of written files. Version 1 is read too; it stores long texts of the file's metadata uncompressed.
inline constexpr int kDatasetVersion = 2;

struct DatasetOptions {
  /// Returns the provider that a file names.
  std::function<const Provider&(std::string_view)> providers = provider;
  /// Device facts for files that carry none: CSV, or Parquet rewritten by another tool.
  std::optional<Device> device = {};
  /// Parquet only: also writes `tflops` and `gb_s`, which follow from sizes and times but take half of the
  /// file.
  bool derived = true;
  /// Parquet only: rows of a row group; a file of up to four times as many rows is one group, which is
  /// smaller. Memory of reading and writing follows this number, not the number of rows.
  std::size_t group_rows = 250'000;
};

/// Whether a dataset's name says that it is CSV.
bool is_csv_dataset(const std::filesystem::path& file);

/// Reads Parquet, or CSV when the name ends in .csv. Throws not_found, corrupt_data, unsupported (newer
/// version).
MeasurementTable read_dataset(const std::filesystem::path& file, const DatasetOptions& options = {});

/// Writes CSV with the rows as they are when the name ends in .csv; otherwise Parquet (zstd) with rows in the
/// order of rows_in_file_order() (dataset/file_order.h). Other processes read the old file or the new one,
/// never a part. Problems and configs without rows are left out. Throws invalid_argument (configs of several
/// providers, no configs), device_failure.
void write_dataset(const std::filesystem::path& file, const MeasurementTable& table,
                   const DatasetOptions& options = {});

/// The CSV form as text. When reading, `source` names the text in errors; columns may be left out when their
/// value is the default of the field, but m, n, k, time_us and either `config` or the axes are needed.
std::string dataset_csv(const MeasurementTable& table, const DatasetOptions& options = {});
MeasurementTable parse_dataset_csv(std::string_view text, const std::string& source,
                                   const DatasetOptions& options);

// ---- Merges the metadata of several tables: joins the distinct values of each key into one text.
//
//     merge_metadata(tables).at("rules");   // "default; full"
//     split_list("default; full");          // {"default", "full"}
//
// An empty value counts as a value, because a sweep without a filter measured more configs than a sweep with
// a filter. For `filter`, a table without the key counts as one with an empty value. Clocks keep the minimum
// and the maximum; `created` keeps the first and the last time.

std::vector<std::string_view> split_list(std::string_view list);

/// Values may already be lists, in tables that were merged before.
std::map<std::string, std::string> merge_metadata(std::span<const MeasurementTable> tables);

}  // namespace kscout
