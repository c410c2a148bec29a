#pragma once
/// \file
/// Measurements that other tools wrote, as a table of ours.
///
///     ImportRequest request{.from = ImportFormat::ck_csv, .op = Op::conv_fwd, .dtype = DType::bf16};
///     request.device = find_device("gfx950");
///     const Imported imported = import_file("conv.csv", request);
///     // imported.table: what write_dataset takes; imported.skipped: what was left out, line and reason
///
/// Formats: docs/formats/import.md. Files are read piece by piece: memory is that of the rows, not of the
/// text.
#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <kscout/measurement.h>

namespace kscout {

enum class ImportFormat : std::uint8_t { ck_csv, ck_log, ck_json, ck_profiler, parquet };
template <>
struct EnumWords<ImportFormat> {
  static constexpr std::string_view what = "format";
  static constexpr std::array<std::string_view, 5> words = {"ck-csv", "ck-log", "ck-json", "ck-profiler",
                                                            "parquet"};
};

struct ImportRequest {
  ImportFormat from = ImportFormat::ck_csv;
  Op op = Op::gemm;
  DType dtype = DType::fp16;            ///< where names and headers do not tell
  std::optional<Layout> layout = {};    ///< likewise; default rcr, or nhwgc and ndhwgc
  Device device = {};                   ///< on which all was measured
  std::optional<Problem> problem = {};  ///< of ck-profiler lines before any problem line
};

/// Something that was left out.
struct Skipped {
  std::size_t line;  ///< where it begins, from 1; of Parquet the row
  std::string reason;
};

struct Imported {
  MeasurementTable table;
  std::size_t repeated = 0;  ///< rows of a (problem, kernel) measured again: the fastest stays
  std::size_t skipped_count = 0;
  std::vector<Skipped> skipped;  ///< the first kMostSkipped of them
  static constexpr std::size_t kMostSkipped = 1000;
};

/// Throws not_found, corrupt_data (a header that lacks what is needed, nothing that could be read),
/// invalid_argument (op and format do not fit).
Imported import_file(const std::filesystem::path& file, const ImportRequest& request);

}  // namespace kscout
