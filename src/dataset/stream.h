#pragma once
/// \file
/// Reads and writes datasets batch by batch, for tables that are larger than memory.
///
///     RowStream stream("a.parquet");
///     while (stream.next())
///       for (const auto& row : stream.table().rows) ...       // those of the batch
///
///     const auto described = describe_file("a.parquet");      // nothing: the rows are not in file order
///     merge_files(files, "merged.parquet", {.keep = Keep::best});
///
/// Memory holds the distinct problems and configs, and about one row group of each open file.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/files.h"
#include "dataset/columns.h"
#include "dataset/dataset.h"
#include "dataset/operations.h"
#include "dataset/parquet.h"
#include "dataset/reduce.h"

namespace kscout {

/// Reads a Parquet dataset. Checks what read_dataset() checks, except for rows that appear twice.
class RowStream {
 public:
  explicit RowStream(const std::filesystem::path& file, const DatasetOptions& options = {});
  RowStream(RowStream&&) noexcept;
  ~RowStream();

  /// The number of rows that the file states, to reserve memory for them.
  std::size_t stated_rows() const;
  /// Puts the next rows into the table; false at the end.
  bool next();
  /// The file's device and metadata, the problems and configs of all rows so far (configs in the order of
  /// their first rows), and the rows of the batch.
  const MeasurementTable& table() const noexcept;
  /// The position of each config so far in family order.
  std::vector<std::uint32_t> family_places() const;
  const Provider& provider() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Writes a Parquet dataset from rows in file order.
///
///     DatasetWriter writer(file, space, options);
///     for (...) {
///       table.rows.push_back(row);
///       writer.take_groups(table);
///     }
///     writer.finish(table);
class DatasetWriter {
 public:
  DatasetWriter(const std::filesystem::path& file, const ConfigSpace& space, const DatasetOptions& options);
  /// Writes whole row groups and takes their rows out of the table.
  void take_groups(MeasurementTable& table);
  /// Writes the remaining rows. `table` has the device, the metadata, and all configs that rows refer to.
  /// `family_order`: the configs as the file's metadata list them.
  void finish(MeasurementTable& table, const std::vector<KernelConfig>& family_order);

 private:
  void write_groups(MeasurementTable& table, std::size_t group_rows, bool all);

  const ConfigSpace& space_;
  const Provider& provider_;
  std::size_t group_rows_;
  bool begun_ = false;
  std::vector<ColumnSpec> columns_;
  AtomicFile file_;
  ParquetWriter writer_;
};

/// What describe() gives for the table of a file, and that table without its rows.
struct DescribedFile {
  MeasurementTable table;
  Description description;
};
/// Nothing when the rows are not in file order, so that the file has to be read as a whole.
std::optional<DescribedFile> describe_file(const std::filesystem::path& file,
                                           const DatasetOptions& options = {});

struct MergeOptions {
  Keep keep = Keep::error;
  bool mixed_devices = false;
  Reduction reduction = {};
};
struct MergedFile {
  std::size_t rows = 0, problems = 0, configs = 0;
  std::size_t unmeasured = 0;  ///< RuleSetRows::unmeasured
};
/// Merges Parquet datasets, reduces the result and writes it as Parquet: the same file as with merge(),
/// reduce() and write_dataset(). Throws what those throw. Nothing, and no file, when the rows of a file are
/// not in file order or files give a problem different weights: such files have to be read as a whole.
///
/// Keep::mean and Keep::median first find the level of each file but the first, which reads the file and
/// those before it once more, and takes 8 to 16 bytes for each row that an earlier file has, too.
std::optional<MergedFile> merge_files(std::span<const std::string> files, const std::filesystem::path& out,
                                      const MergeOptions& merge, const DatasetOptions& options = {});

}  // namespace kscout
