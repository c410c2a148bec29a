// Reads tables of benchmarks, CSV or Parquet: columns by name, in any order.
#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "core/fail.h"
#include "core/names.h"
#include "core/problem_text.h"
#include "dataset/parquet.h"
#include "import/import.h"
#include "op/operation.h"
#include "provider/ck_tile/ck_tile.h"

namespace kscout {
namespace {

/// The meaning of a column.
enum class Cell : std::uint8_t {
  ignored,
  field,
  kernel,
  tile,
  pipeline,
  dtype,
  layout,
  major,
  stride,
  variant,
  arch,
  time_ms,
  time_us,
  tflops,
  valid,
  non_zero,
  hardware,
};

/// A column of the file.
struct Column {
  Cell cell = Cell::ignored;
  std::string_view field = {},
                   right = {};     ///< of the problem; of pads: the left-hand and the right-hand side
  std::size_t axis = 0;            ///< tile: m, n, k; major: A, B, C
  double Device::*fact = nullptr;  ///< hardware
  /// Hardware: factor from the column's unit to that of the fact.
  double unit = 1;
};

struct KnownColumn {
  std::string_view name;
  Column column;
};

constexpr Column size_of(std::string_view field) { return {.cell = Cell::field, .field = field}; }
constexpr Column pad_of(std::string_view left, std::string_view right) {
  return {.cell = Cell::field, .field = left, .right = right};
}

constexpr KnownColumn kConvColumns[] = {
    {"N", size_of("n")},
    {"C", size_of("c")},
    {"K", size_of("k")},
    {"G", size_of("g")},
    {"Di", size_of("d")},
    {"Hi", size_of("h")},
    {"Wi", size_of("w")},
    {"Z", size_of("z")},
    {"Y", size_of("y")},
    {"X", size_of("x")},
    {"stride_d", size_of("stride_d")},
    {"stride_h", size_of("stride_h")},
    {"stride_w", size_of("stride_w")},
    {"dilation_d", size_of("dilation_d")},
    {"dilation_h", size_of("dilation_h")},
    {"dilation_w", size_of("dilation_w")},
    {"pad_d", pad_of("left_pad_d", "right_pad_d")},
    {"pad_h", pad_of("left_pad_h", "right_pad_h")},
    {"pad_w", pad_of("left_pad_w", "right_pad_w")},
    {"tile_m", {.cell = Cell::tile, .axis = 0}},
    {"tile_n", {.cell = Cell::tile, .axis = 1}},
    {"tile_k", {.cell = Cell::tile, .axis = 2}},
    {"pipeline", {.cell = Cell::pipeline}},
    {"variant", {.cell = Cell::variant}},
};
constexpr KnownColumn kGemmColumns[] = {
    {"m", size_of("m")},
    {"n", size_of("n")},
    {"k", size_of("k")},
    {"split_k", size_of("split_k")},
    {"layout", {.cell = Cell::layout}},
    // The tile engine's CSV of GEMM benchmarks.
    {"stride_a", {.cell = Cell::stride, .field = "lda"}},
    {"stride_b", {.cell = Cell::stride, .field = "ldb"}},
    {"stride_c", {.cell = Cell::stride, .field = "ldc"}},
    {"dtype_a", {.cell = Cell::dtype}},
    {"layout_a", {.cell = Cell::major, .axis = 0}},
    {"layout_b", {.cell = Cell::major, .axis = 1}},
    {"layout_c", {.cell = Cell::major, .axis = 2}},
    {"name", {.cell = Cell::kernel}},
    {"latency(ms)", {.cell = Cell::time_ms}},
    {"tflops(TFlops)", {.cell = Cell::tflops}},
    // The CSV of GEMM sweeps by a model.
    {"M", size_of("m")},
    {"N", size_of("n")},
    {"K", size_of("k")},
    {"selected_kernel", {.cell = Cell::kernel}},
    {"actual_time_ms", {.cell = Cell::time_ms}},
    {"actual_tflops", {.cell = Cell::tflops}},
};
constexpr KnownColumn kCommonColumns[] = {
    {"kernel", {.cell = Cell::kernel}},      {"kernel_name", {.cell = Cell::kernel}},
    {"dtype", {.cell = Cell::dtype}},        {"arch", {.cell = Cell::arch}},
    {"latency_ms", {.cell = Cell::time_ms}}, {"latency_us", {.cell = Cell::time_us}},
    {"tflops", {.cell = Cell::tflops}},      {"measured_tflops", {.cell = Cell::tflops}},
    {"is_valid", {.cell = Cell::valid}},     {"non_zero", {.cell = Cell::non_zero}},
};

constexpr std::string_view kConvNeeded[] = {"N", "C", "K", "Hi", "Wi", "Y", "X"};
constexpr std::string_view kGemmNeeded[] = {"m", "n", "k", "kernel_name"};

Column column_of(std::string_view name, Op op) {
  const auto find_in = [name](std::span<const KnownColumn> columns) -> const Column* {
    const auto known = std::ranges::find(columns, name, &KnownColumn::name);
    return known == columns.end() ? nullptr : &known->column;
  };
  const Column* const own =
      is_direction(op) ? find_in(std::span(kConvColumns)) : find_in(std::span(kGemmColumns));
  if (own) return *own;
  if (const Column* const common = find_in(std::span(kCommonColumns))) return *common;
  for (const CkHardwareConstant& constant : kCkHardware) {
    if (name.starts_with("hw_") && name.substr(3) == constant.name)
      return {.cell = Cell::hardware, .fact = constant.fact, .unit = constant.unit};
  }
  return {};
}

template <class T>
bool read_number(std::string_view text, T& value) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

/// Reads a whole number, also in the form 8.0 that tables with missing values contain.
bool read_number(std::string_view text, std::int64_t& value) {
  if (text.ends_with(".0")) text.remove_suffix(2);
  return read_number<std::int64_t>(text, value);
}

/// Reads rows of cells.
class TableReader {
 public:
  TableReader(const std::filesystem::path& file, const ImportRequest& request, ImportTable& to)
      : file_(file), request_(request), to_(to) {}

  /// Takes the names of the columns; throws corrupt_data when a needed one is missing.
  void header(const std::vector<std::string_view>& names) {
    bool tile = false, time = false;
    for (const std::string_view name : names) {
      columns_.push_back(column_of(name, request_.op));
      const Cell cell = columns_.back().cell;
      named_ |= cell == Cell::kernel;
      tile |= cell == Cell::tile;
      time |= cell == Cell::time_ms || cell == Cell::time_us || cell == Cell::tflops;
    }
    const std::span<const std::string_view> needed =
        is_direction(request_.op) ? std::span<const std::string_view>(kConvNeeded) : kGemmNeeded;
    needed_.resize(names.size());
    for (const std::string_view one : needed) {
      const Column wanted = column_of(one, request_.op);  // several names may mean the same
      bool found = false;
      for (std::size_t i = 0; i < columns_.size(); ++i) {
        if (columns_[i].cell != wanted.cell || columns_[i].field != wanted.field) continue;
        found = needed_[i] = true;
      }
      if (!found) missing(one, names);
    }
    if (!named_ && !tile)
      fail(Errc::corrupt_data, "{}: neither column 'kernel' nor tile_m, tile_n, tile_k", file_.string());
    if (!time)
      fail(Errc::corrupt_data, "{}: none of the columns latency_ms, latency_us, tflops", file_.string());
  }

  void row(const std::vector<std::string_view>& cells, std::size_t number) {
    if (cells.size() != columns_.size())
      return to_.skip(number, fmt::format("{} cells under {} columns", cells.size(), columns_.size()));
    ForeignRow row{.line = number};
    double tflops = 0;
    try {
      row.problem = problem_of(cells);
      read_measurement(cells, row, tflops);
      if (!(row.time_us > 0) && tflops > 0) {
        check(row.problem);  // counting the operations of an impossible problem divides by its zeros
        row.time_us = flop_count(row.problem) / tflops * 1e-6;
      }
    } catch (const Error& error) {
      return to_.skip(number, error.what());
    }
    std::string made;
    if (!named_) {  // tables of generated kernels have tile and pipeline only
      made = made_name(cells, signature_of(row.problem));
      row.kernel = made;
    }
    to_.add(row);
  }

  bool has_header() const noexcept { return !columns_.empty(); }
  /// Whether a column is read.
  bool wants(std::size_t column) const noexcept { return columns_[column].cell != Cell::ignored; }

 private:
  [[noreturn]] void missing(std::string_view column, const std::vector<std::string_view>& names) const {
    if (request_.op == Op::gemm && std::ranges::find(names, "Hi") != names.end()) {
      fail(Errc::invalid_argument,
           "{}: a table of convolutions: give --op conv_fwd, conv_bwd_data or conv_bwd_weight",
           file_.string());
    }
    fail(Errc::corrupt_data, "{}: column '{}' is missing", file_.string(), column);
  }
  [[noreturn]] static void no_number(std::size_t column, std::string_view text) {
    fail(Errc::corrupt_data, "column {}: '{}' is no number", column + 1, text);
  }
  double number_of(std::size_t column, std::string_view text) const {
    double value = 0;
    if (!read_number(text, value)) no_number(column, text);
    return value;
  }

  void read_sizes(const std::vector<std::string_view>& cells, Problem& problem) const {
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const Column& column = columns_[i];
      if (column.cell != Cell::field) continue;
      if (cells[i].empty() && !needed_[i]) continue;  // absent: the default
      std::int64_t value = 0;
      if (!read_number(cells[i], value)) no_number(i, cells[i]);
      problem.set(column.field, value);
      if (!column.right.empty()) problem.set(column.right, value);
    }
  }

  /// Sets leading dimensions that are not those of packed operands.
  void read_strides(const std::vector<std::string_view>& cells, Problem& problem) const {
    if (request_.op != Op::gemm) return;
    const LeadingDimensions packed = leading_dimensions(problem.gemm());
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string_view field = columns_[i].field;
      if (columns_[i].cell != Cell::stride || cells[i].empty()) continue;
      std::int64_t value = 0;
      if (!read_number(cells[i], value)) no_number(i, cells[i]);
      const std::int64_t usual = field == "lda" ? packed.a : field == "ldb" ? packed.b : packed.c;
      if (value != usual) problem.set(field, value);
    }
  }

  /// Reads words first: element type and layout decide which sizes follow.
  Problem problem_of(const std::vector<std::string_view>& cells) const {
    DType dtype = request_.dtype;
    std::optional<Layout> layout = request_.layout;
    std::array<char, 3> majors{};
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (cells[i].empty()) continue;
      if (columns_[i].cell == Cell::dtype) dtype = parse<DType>(cells[i]);
      if (columns_[i].cell == Cell::layout) layout = parse<Layout>(cells[i]);
      if (columns_[i].cell == Cell::major) majors[columns_[i].axis] = major_of(cells[i]);
      if (columns_[i].cell == Cell::variant) check_variant(cells[i]);
      if (columns_[i].cell == Cell::arch) check_arch(cells[i]);
    }
    if (std::ranges::find(majors, '\0') == majors.end())
      layout = parse<Layout>(std::string_view(majors.data(), majors.size()));
    const Operation& of = operation(request_.op);
    Problem problem = of.make(request_.op, dtype, layout.value_or(of.layouts.front()));
    read_sizes(cells, problem);
    read_strides(cells, problem);
    if (is_direction(request_.op)) {
      const bool three = problem["d"] > 1 || problem["z"] > 1 || problem["left_pad_d"] > 0;
      if (!layout && three) problem.set("layout", static_cast<std::int64_t>(Layout::ndhwgc));
    } else if (problem["split_k"] == 1) {
      problem.set("split_k", 0);  // the foreign tool's word for a free choice
    }
    return problem;
  }

  void check_variant(std::string_view text) const {
    constexpr std::string_view kShort[] = {"fwd", "bwdd", "bwdw"};  // in the order of the directions
    if (text == ck_variant(request_.op) ||
        text == kShort[static_cast<std::size_t>(request_.op) - static_cast<std::size_t>(Op::conv_fwd)])
      return;
    fail(Errc::corrupt_data, "a row of variant '{}', not of {}", text, word(request_.op));
  }
  /// Compares only the part before the colon: "gfx950:sramecc+:xnack-" is gfx950.
  void check_arch(std::string_view text) const {
    const std::string_view arch = text.substr(0, text.find(':'));
    if (arch == request_.device.arch) return;
    fail(Errc::corrupt_data, "measured on {}, not on --device {}", text, request_.device.name);
  }

  void read_measurement(const std::vector<std::string_view>& cells, ForeignRow& row, double& tflops) {
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const Column& column = columns_[i];
      switch (column.cell) {
        case Cell::kernel:
          row.kernel = cells[i];
          break;
        case Cell::time_ms:
        case Cell::time_us:
          if (!cells[i].empty())
            row.time_us = number_of(i, cells[i]) * (column.cell == Cell::time_ms ? 1000 : 1);
          break;
        case Cell::tflops:
          if (!cells[i].empty()) tflops = number_of(i, cells[i]);
          break;
        case Cell::valid:
          row.valid = row.valid && is_true(cells[i]);
          break;
        case Cell::non_zero:  // how many elements of the result differ from 0, or whether one does
          row.valid = row.valid && (cells[i].empty() || is_true(cells[i]));
          break;
        case Cell::hardware:
          if (!cells[i].empty()) to_.fact(column.fact, column.unit * number_of(i, cells[i]));
          break;
        default:
          break;
      }
    }
  }

  static bool is_true(std::string_view text) {
    double number = 1;
    return !text.empty() && text != "False" && text != "false" && !(read_number(text, number) && number == 0);
  }

  std::string made_name(const std::vector<std::string_view>& cells, const Signature& signature) const {
    std::array<std::string_view, 3> tile;
    std::string_view pipeline;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (columns_[i].cell == Cell::tile) tile[columns_[i].axis] = cells[i];
      if (columns_[i].cell == Cell::pipeline) pipeline = cells[i];
    }
    return fmt::format("grouped_conv_{}_{}_{}d_{}x{}x{}_{}", ck_variant(request_.op), word(signature.dtype_a),
                       spatial_rank(signature.layout), tile[0], tile[1], tile[2], pipeline);
  }

  const std::filesystem::path& file_;
  const ImportRequest& request_;
  ImportTable& to_;
  std::vector<Column> columns_;
  std::vector<bool> needed_;
  bool named_ = false;
};

}  // namespace

void read_ck_csv(const std::filesystem::path& file, const ImportRequest& request, ImportTable& to) {
  TableReader reader(file, request, to);
  each_line(file, [&](const LogLine& line) {
    if (line.text.empty()) return;
    if (!reader.has_header()) return reader.header(split(line.text, ','));
    if (!line.ended) return to.skip(line.number, kNoLineEnd);
    reader.row(split(line.text, ','), line.number);
  });
}

void read_ck_parquet(const std::filesystem::path& file, const ImportRequest& request, ImportTable& to) {
  TableReader reader(file, request, to);
  std::size_t row = 0;
  read_parquet_as_text(
      file.string(), file.filename().string(),
      [&](const ParquetHeader& header) {
        reader.header({header.names.begin(), header.names.end()});
        std::vector<bool> wanted;
        for (std::size_t i = 0; i < header.names.size(); ++i) wanted.push_back(reader.wants(i));
        return wanted;
      },
      [&](const std::vector<std::string_view>& cells) { reader.row(cells, ++row); });
}

}  // namespace kscout
