#pragma once
/// \file
/// Measurements in files: Parquet to keep, CSV to exchange.
///
///     write_dataset("data/gemm_fp32_zen3-2c.parquet", table);
///     const MeasurementTable table = read_dataset("data/gemm_fp32_zen3-2c.parquet");
///
/// One file holds one op, provider and device. Columns, types and units: docs/formats/dataset.md; they come
/// from the field lists and the provider's axes. Reading checks every value; the first that cannot be right
/// is an Error (corrupt_data) that names file, row, column, value and remedy. Rows count from 1.
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

/// What is written. Version 1, which is read too, has long texts of the file's metadata as they are.
inline constexpr int kDatasetVersion = 2;

struct DatasetOptions {
  /// Finds the provider that a file names.
  std::function<const Provider&(std::string_view)> providers = provider;
  /// Facts for files that carry none: CSV, or Parquet rewritten by another tool.
  std::optional<Device> device;
  /// Writing Parquet: with `tflops` and `gb_s`, which follow from sizes and times but take half of the file.
  bool derived = true;
};

/// Parquet, or CSV when the name ends in .csv. Throws not_found, corrupt_data, unsupported (newer version).
MeasurementTable read_dataset(const std::filesystem::path& file, const DatasetOptions& options = {});

/// Parquet (zstd) with rows in the order of row_order.h, or CSV, rows as they are, when the name ends in
/// .csv. Readers see the old file or the new one, never a part. Problems and configs without rows are left
/// out. Throws invalid_argument (configs of several providers, no configs), device_failure.
void write_dataset(const std::filesystem::path& file, const MeasurementTable& table,
                   const DatasetOptions& options = {});

/// The CSV form as text; `source` names it in errors. Columns may be left out when their value is the default
/// of the field; m, n, k, time_us and either `config` or the axes are needed.
std::string dataset_csv(const MeasurementTable& table, const DatasetOptions& options = {});
MeasurementTable parse_dataset_csv(std::string_view text, const std::string& source,
                                   const DatasetOptions& options);

// ---- The metadata of several tables together: under each key what the tables say, each value once, as one
// text.
//
//     merge_metadata(tables).at("rules");   // "default; full"
//     split_list("default; full");          // {"default", "full"}
//
// An empty value is one: a sweep without a filter measured more than its neighbours in the list. For
// `filter` a table without the key says the same. Of clocks the least and the largest are kept, of `created`
// the first and the last time.

std::vector<std::string_view> split_list(std::string_view list);

/// Values may be lists already: of tables that were merged before.
std::map<std::string, std::string> merge_metadata(std::span<const MeasurementTable> tables);

}  // namespace kscout
