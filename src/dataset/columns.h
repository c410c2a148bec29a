#pragma once
/// \file
/// Converts measurements to and from typed columns, the common form of Parquet and CSV.
///
///     const auto specs = dataset_columns(space);
///     Block block = make_block(table, provider, specs);          // table -> columns
///     TableBuilder builder("a.parquet", provider, space, device, Columns::all_required);
///     builder.add(specs, block);                                  // columns -> table, every value checked
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <kscout/measurement.h>
#include <kscout/provider.h>

#include "dataset/file_order.h"

namespace kscout {

enum class ColumnType : std::uint8_t { text, int64, int32, float64, boolean };
template <>
struct EnumWords<ColumnType> {
  static constexpr std::string_view what = "column type";
  static constexpr std::array<std::string_view, 5> words = {"text", "int64", "int32", "float64", "boolean"};
};

struct ColumnSpec {
  std::string name, unit, help;
  ColumnType type = ColumnType::text;
  bool nullable = false;  ///< null = unknown
};

/// Axes are named config_<axis>, so that they cannot clash with fields of problems and measurements.
inline constexpr std::string_view kAxisPrefix = "config_";

/// Columns that files of earlier versions lack: their rows have the field's default.
constexpr bool is_later_column(std::string_view name) noexcept {
  return name == "prepacked" || name == "epilogue" || name == "setup_us" || name == "workspace_bytes";
}

/// Every column of a dataset of this config space, in file order.
std::vector<ColumnSpec> dataset_columns(const ConfigSpace& space);
/// Number of derived columns, which are the last ones. They follow from other columns, so a file may lack
/// them.
inline constexpr std::size_t kDerivedColumns = 2;

/// Values of one column over some rows; the type of the column decides which member is used.
struct ColumnValues {
  static constexpr std::int64_t null_whole = std::numeric_limits<std::int64_t>::min();
  static constexpr std::int32_t null_word = -1;
  std::vector<std::int64_t> whole;  ///< int64, int32, boolean
  std::vector<double> number;       ///< float64; NaN = null
  std::vector<std::string> words;   ///< text: the distinct values
  std::vector<std::int32_t> index;  ///< text: position in `words`, per row
};

/// Rows stored as columns, in the order of their specs.
struct Block {
  std::size_t rows = 0;
  std::vector<ColumnValues> columns;
};

/// The distinct signatures of problems, in the order of their first problems, and the signature of each
/// problem.
struct ProblemSignatures {
  std::vector<Signature> signatures;
  std::vector<std::uint32_t> of_problem;  ///< position in `signatures`
};
ProblemSignatures signatures_of(std::span<const Problem> problems);

/// Kernel names of a table's rows as a column: each (signature, config) is one word.
ColumnValues kernel_names(const MeasurementTable& table, const Provider& provider);

/// All rows of the table. Every config must belong to `space`'s provider and op.
Block make_block(const MeasurementTable& table, const Provider& provider, const ConfigSpace& space);

/// Whether a row has a comparable time: it succeeded, or was pruned early with a coarse time.
bool was_timed(const Measurement& measured) noexcept;

/// Derived columns: speed of timed rows; NaN for other rows.
double tflops_of(ProblemRef problem, const Measurement& measured) noexcept;
double gb_s_of(ProblemRef problem, const Measurement& measured) noexcept;

enum class Columns : std::uint8_t { all_required, defaults_allowed };

/// Whether a (problem, config, pass) that appears twice is an error of the builder, which remembers every
/// row, or is found by the caller.
enum class Repeats : std::uint8_t { refused, left_to_caller };

/// The position of each config in family order. `config_order`: axis values of configs as config_text()
/// writes them; configs that it lacks come last.
std::vector<std::uint32_t> family_places(std::span<const KernelConfig> configs,
                                         const std::vector<std::string>& config_order);

/// Builds a table from blocks and checks every value.
class TableBuilder {
 public:
  /// `source` names the file in errors. `names` are the columns of the file. Throws corrupt_data when `names`
  /// lacks a required column, or holds an unknown or repeated one.
  TableBuilder(const TableBuilder&) = delete;
  TableBuilder& operator=(const TableBuilder&) = delete;
  TableBuilder(std::string source, const Provider& provider, const ConfigSpace& space, Device device,
               std::span<const std::string> names, Columns required, Repeats repeats = Repeats::refused);

  /// Adds rows, whose columns are in the order of the constructor's `names`.
  void add(const Block& block);
  /// The table so far; its configs are in the order of their first rows.
  const MeasurementTable& table() const noexcept { return table_; }
  MeasurementTable& table() noexcept { return table_; }
  /// The table with configs in family order (family_places).
  MeasurementTable finish(const std::vector<std::string>& config_order);

 private:
  [[noreturn]] void bad(std::size_t row, std::string_view column, const std::string& what) const;
  void check_names(std::span<const std::string> names, Columns required);
  /// The columns of a block, by position in specs_; null where the file lacks one.
  std::vector<const ColumnValues*> by_spec(const Block& block) const;
  std::int64_t read_whole(const ColumnValues& column, std::string_view name, std::size_t row) const;
  /// Position of the row's word among `words`; `what` they are.
  std::size_t read_word(const ColumnValues& column, std::string_view name, std::string_view what,
                        std::span<const std::string_view> words, std::size_t row) const;
  SizeList read_list(const ColumnValues& column, std::string_view name, std::size_t row) const;
  Measurement read_measurement(std::size_t row) const;
  Problem read_problem(std::size_t row) const;
  void read_row(std::size_t row);
  void check_repeat(const MeasurementTable::Row& added, std::size_t row);
  void check_constants(std::size_t row) const;
  const std::string& name_at(std::size_t row);
  KernelConfig read_config(std::size_t row, const Problem& problem);
  void check_name(std::size_t row, const Problem& problem, std::uint32_t config);
  std::uint32_t problem_id(const Problem& problem, std::size_t row);
  std::uint32_t config_id(const KernelConfig& config);
  void check_measurement(const Measurement& measured, std::size_t row) const;
  void check_derived(const Problem& problem, const Measurement& measured, std::size_t row) const;

  std::string source_;
  const Provider& provider_;
  const ConfigSpace& space_;
  Repeats repeats_;
  std::vector<ColumnSpec> specs_;
  std::vector<int> position_;  ///< of each spec among the file's columns; -1 = absent
  bool has_axes_ = false;
  std::vector<const ColumnValues*> current_;
  std::size_t rows_before_ = 0;
  MeasurementTable table_;
  std::unordered_map<Problem, std::uint32_t> problem_ids_;
  std::unordered_map<KernelConfig, std::uint32_t> config_ids_;
  FileOrder order_;
  std::optional<FileOrder::Place> last_;
  bool ascending_ = true;  ///< all rows so far are in file order, so none is there twice
  std::unordered_map<std::uint64_t, std::size_t> first_row_;  ///< of each (problem, config, pass), if not
  std::unordered_set<std::string> checked_names_;
  std::unordered_map<std::string, NamedConfig> parsed_names_;
};

/// The axis values of a config as comma-separated words.
std::string config_text(const KernelConfig& config);

}  // namespace kscout
