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
#include <unordered_map>
#include <utility>
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
  std::vector<Skipped> skipped;  ///< the first kMaxSkipped of them
  static constexpr std::size_t kMaxSkipped = 1000;
};

/// Throws not_found, corrupt_data (a header that lacks what is needed, nothing that could be read),
/// invalid_argument (op and format do not fit).
Imported import_file(const std::filesystem::path& file, const ImportRequest& request);

// ---- What the readers of foreign formats share: lines of a file piece by piece, and rows put together.

/// Calls `use(line, number)` for each line of a file, without its end; numbers from 1.
void each_line(const std::filesystem::path& file,
               const std::function<void(std::string_view line, std::size_t number)>& use);

/// One measured (problem, kernel) as a foreign file tells it.
struct ForeignRow {
  Problem problem = {};
  std::string_view kernel = {};
  double time_us = Measurement::unknown;  ///< above 0 when it is valid
  std::int32_t repeats = 0;
  bool valid = true;
  std::size_t line = 0;
};

/// Puts rows into a table; each kernel's name is read once.
class ImportTable {
 public:
  explicit ImportTable(const ImportRequest& request);

  void add(const ForeignRow& row);
  void skip(std::size_t line, std::string reason);
  /// What the file says about its device: overrules the preset. Throws corrupt_data when it said otherwise
  /// before, or no number above 0.
  void fact(double Device::*fact, double value);
  /// With provenance; throws corrupt_data when no row came together.
  Imported finish(const std::filesystem::path& file);

 private:
  struct Kernel {
    std::uint32_t config = 0;
    Signature signature;
    std::string refusal;  ///< why the name says nothing; empty when it does
  };
  const Kernel& kernel(std::string_view name);

  const ImportRequest& request_;
  std::vector<std::pair<double Device::*, double>> facts_;  ///< told so far
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

}  // namespace kscout
