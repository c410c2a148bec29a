#pragma once
/// \file
/// Imports measurements of other tools into a MeasurementTable.
///
///     ImportRequest request{.from = ImportFormat::ck_csv, .op = Op::conv_fwd, .dtype = DType::bf16};
///     request.device = find_device("gfx950");
///     const Imported imported = import_file("conv.csv", request);
///     // imported.table: the input of write_dataset; imported.skipped: rows left out, with line and reason
///
/// Formats: docs/formats/import.md. Files are read in pieces: memory grows with the rows, not with the text.
#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <kscout/measurement.h>

#include "op/skipped_lines.h"

namespace kscout {

enum class ImportFormat : std::uint8_t { ck_csv, ck_log, ck_json, ck_profiler, parquet, miopen_find_db };
template <>
struct EnumWords<ImportFormat> {
  static constexpr std::string_view what = "format";
  static constexpr std::array<std::string_view, 6> words = {"ck-csv",      "ck-log",  "ck-json",
                                                            "ck-profiler", "parquet", "miopen-find-db"};
};

struct ImportRequest {
  ImportFormat from = ImportFormat::ck_csv;
  Op op = Op::gemm;
  DType dtype = DType::fp16;  ///< where names and headers give none
  /// Where names and headers give none; default rcr, or nhwgc and ndhwgc. miopen-find-db: the only one that
  /// is read.
  std::optional<Layout> layout = {};
  std::optional<DType> only_dtype = {};  ///< miopen-find-db: the only type that is read
  Device device = {};                    ///< the measured device
  std::optional<Problem> problem = {};   ///< of ck-profiler lines before the first problem line
};

/// An entry of the file that was left out.
struct Skipped {
  std::size_t line;  ///< first line of the entry, from 1; in Parquet the row
  std::string reason;
};

struct Imported {
  MeasurementTable table;
  std::size_t repeated = 0;  ///< repeated rows of a (problem, kernel): the fastest is kept
  std::size_t skipped_count = 0;
  std::vector<Skipped> skipped;  ///< the first kMaxSkipped entries
  static constexpr std::size_t kMaxSkipped = 1000;
};

/// Throws not_found, corrupt_data (a header lacks a needed column, or nothing could be read),
/// invalid_argument (the format does not support the op, or the device is no GPU of AMD).
Imported import_file(const std::filesystem::path& file, const ImportRequest& request);

// ---- Shared by the readers of foreign formats: reading lines in pieces, and building the table.

/// Calls `use` for each line of a file. A byte-order mark is no text.
void each_line(const std::filesystem::path& file, const std::function<void(const LogLine& line)>& use);

/// Why a last line without a line end is left out: it may be cut, and its last word then means another thing.
inline constexpr const char* kNoLineEnd = "the last line has no line end, so it may be cut short";

/// 'r' or 'c' for a text such as "RowMajor" or "ColumnMajor", in any case; '?' when it is neither.
char major_of(std::string_view text);

/// One measured (problem, kernel) of a foreign file.
struct ForeignRow {
  Problem problem = {};
  std::string_view kernel = {};
  double time_us = Measurement::unknown;  ///< above 0 when the row is valid
  double workspace_bytes = Measurement::unknown;
  std::int32_t repeats = 0;
  bool valid = true;
  std::size_t line = 0;
};

/// Adds rows to a table; parses each kernel's name once.
class ImportTable {
 public:
  explicit ImportTable(const ImportRequest& request);

  void add(const ForeignRow& row);
  void skip(std::size_t line, std::string reason);
  /// Sets a device fact from the file, which replaces the preset's. Throws corrupt_data when an earlier row
  /// gave another value, or for a value not above 0.
  void fact(double Device::*fact, double value);
  /// Returns the table with its provenance; throws corrupt_data when it has no row.
  Imported finish(const std::filesystem::path& file);

 private:
  struct Kernel {
    std::uint32_t config = 0;
    Signature signature;
    std::string refusal;  ///< why the name cannot be read; empty when it can
  };
  const Kernel& kernel(std::string_view name);

  const ImportRequest& request_;
  std::vector<std::pair<double Device::*, double>> facts_;  ///< facts given so far
  Imported imported_;
  std::unordered_map<std::string, Kernel> kernels_;
  std::unordered_map<KernelConfig, std::uint32_t> configs_;
  std::unordered_map<Problem, std::uint32_t> problems_;
  std::unordered_map<std::uint64_t, std::size_t> rows_;
  std::string last_name_;
  const Kernel* last_kernel_ = nullptr;
};

void read_ck_csv(const std::filesystem::path& file, const ImportRequest& request, ImportTable& to);
void read_ck_log(const std::filesystem::path& file, const ImportRequest& request, ImportTable& to);
void read_ck_json(const std::filesystem::path& file, const ImportRequest& request, ImportTable& to);
void read_ck_parquet(const std::filesystem::path& file, const ImportRequest& request, ImportTable& to);
void read_ck_profiler(const std::filesystem::path& file, const ImportRequest& request, ImportTable& to);
void read_miopen_find_db(const std::filesystem::path& file, const ImportRequest& request, ImportTable& to);

}  // namespace kscout
