// Tables of convolution benchmarks: columns by name, in any order.
#include <algorithm>
#include <charconv>
#include <optional>

#include <kscout/conv_problem.h>

#include "core/fail.h"
#include "import/gather.h"

namespace kscout {
namespace {

/// What a column means.
enum class Cell : std::uint8_t {
  ignored,
  field,
  pad,
  kernel,
  tile,
  pipeline,
  time_ms,
  time_us,
  tflops,
  valid
};

/// A column of the file.
struct Column {
  Cell cell = Cell::ignored;
  std::int64_t ConvProblem::*to = nullptr;     ///< field and pad
  std::int64_t ConvProblem::*right = nullptr;  ///< pad
  std::size_t axis = 0;                        ///< tile
};

struct KnownColumn {
  std::string_view name;
  Column column;
};

using P = ConvProblem;
constexpr KnownColumn kColumns[] = {
    {"kernel", {Cell::kernel}},
    {"kernel_name", {Cell::kernel}},
    {"N", {Cell::field, &P::n}},
    {"C", {Cell::field, &P::c}},
    {"K", {Cell::field, &P::k}},
    {"G", {Cell::field, &P::g}},
    {"Di", {Cell::field, &P::d}},
    {"Hi", {Cell::field, &P::h}},
    {"Wi", {Cell::field, &P::w}},
    {"Z", {Cell::field, &P::z}},
    {"Y", {Cell::field, &P::y}},
    {"X", {Cell::field, &P::x}},
    {"stride_d", {Cell::field, &P::stride_d}},
    {"stride_h", {Cell::field, &P::stride_h}},
    {"stride_w", {Cell::field, &P::stride_w}},
    {"dilation_d", {Cell::field, &P::dilation_d}},
    {"dilation_h", {Cell::field, &P::dilation_h}},
    {"dilation_w", {Cell::field, &P::dilation_w}},
    {"pad_d", {Cell::pad, &P::left_pad_d, &P::right_pad_d}},
    {"pad_h", {Cell::pad, &P::left_pad_h, &P::right_pad_h}},
    {"pad_w", {Cell::pad, &P::left_pad_w, &P::right_pad_w}},
    {"tile_m", {Cell::tile, nullptr, nullptr, 0}},
    {"tile_n", {Cell::tile, nullptr, nullptr, 1}},
    {"tile_k", {Cell::tile, nullptr, nullptr, 2}},
    {"pipeline", {Cell::pipeline}},
    {"latency_ms", {Cell::time_ms}},
    {"latency_us", {Cell::time_us}},
    {"tflops", {Cell::tflops}},
    {"is_valid", {Cell::valid}},
};

constexpr std::string_view kNeeded[] = {"N", "C", "K", "Hi", "Wi", "Y", "X"};

std::vector<std::string_view> cells_of(std::string_view line) {
  std::vector<std::string_view> cells;
  for (std::size_t begin = 0;;) {
    const std::size_t comma = line.find(',', begin);
    cells.push_back(line.substr(begin, comma - begin));
    if (comma == std::string_view::npos) return cells;
    begin = comma + 1;
  }
}

template <class T>
bool read_number(std::string_view text, T& value) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

class Reader {
 public:
  Reader(const std::filesystem::path& file, const ImportRequest& request, Gatherer& to)
      : file_(file), request_(request), to_(to) {}

  void line(std::string_view text, std::size_t number) {
    if (text.empty()) return;
    if (columns_.empty()) return header(text);
    row(text, number);
  }

 private:
  void header(std::string_view text) {
    if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
    bool tile = false, kernel = false, time = false, speed = false;
    std::vector<std::string_view> names = cells_of(text);
    for (const std::string_view name : names) {
      const auto known = std::ranges::find(kColumns, name, &KnownColumn::name);
      columns_.push_back(known == std::end(kColumns) ? Column{} : known->column);
      const Cell cell = columns_.back().cell;
      kernel |= cell == Cell::kernel;
      tile |= cell == Cell::tile;
      time |= cell == Cell::time_ms || cell == Cell::time_us;
      speed |= cell == Cell::tflops;
    }
    for (const std::string_view needed : kNeeded) {
      if (std::ranges::find(names, needed) == names.end()) {
        fail(Errc::corrupt_data, "{}: column '{}' is missing", file_.string(), needed);
      }
    }
    if (!kernel && !tile)
      fail(Errc::corrupt_data, "{}: neither column 'kernel' nor tile_m, tile_n, tile_k", file_.string());
    if (!time && !speed)
      fail(Errc::corrupt_data, "{}: none of the columns latency_ms, latency_us, tflops", file_.string());
    named_ = kernel;
  }

  /// Why the row cannot be read; nothing when it could.
  std::optional<std::string> read(const std::vector<std::string_view>& cells, ConvProblem& problem,
                                  ForeignRow& row, double& tflops) {
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const Column& column = columns_[i];
      const auto wrong = [&] { return fmt::format("column {}: '{}' is no number", i + 1, cells[i]); };
      double number = 0;
      switch (column.cell) {
        case Cell::ignored:
          break;
        case Cell::field:
        case Cell::pad:
          if (!read_number(cells[i], problem.*column.to)) return wrong();
          if (column.cell == Cell::pad) problem.*column.right = problem.*column.to;
          break;
        case Cell::kernel:
          row.kernel = cells[i];
          break;
        case Cell::tile:
          if (!read_number(cells[i], tile_[column.axis])) return wrong();
          break;
        case Cell::pipeline:
          pipeline_ = cells[i];
          break;
        case Cell::time_ms:
        case Cell::time_us:
          if (!read_number(cells[i], number)) return wrong();
          row.time_us = column.cell == Cell::time_ms ? 1000 * number : number;
          break;
        case Cell::tflops:
          if (!read_number(cells[i], tflops)) return wrong();
          break;
        case Cell::valid:
          row.valid = cells[i] != "0" && cells[i] != "False" && cells[i] != "false";
      }
    }
    return std::nullopt;
  }

  void row(std::string_view text, std::size_t number) {
    const auto cells = cells_of(text);
    if (cells.size() != columns_.size()) {
      return to_.skip(number, fmt::format("{} cells under {} columns", cells.size(), columns_.size()));
    }
    ConvProblem problem = make_conv(request_.op, request_.dtype);
    ForeignRow row{.line = number};
    double tflops = 0;
    if (auto why = read(cells, problem, row, tflops)) return to_.skip(number, std::move(*why));
    const bool three = problem.d > 1 || problem.z > 1 || problem.left_pad_d > 0;
    problem.layout = request_.layout.value_or(three ? Layout::ndhwgc : Layout::nhwgc);
    if (!(row.time_us > 0) && tflops > 0) row.time_us = flop_count(problem) / tflops * 1e-6;
    std::string made;
    if (!named_) {  // tables of generated kernels tell tile and pipeline only
      made = fmt::format("grouped_conv_{}_{}_{}d_{}x{}x{}_{}",
                         request_.op == Op::conv_fwd ? "forward" : word(request_.op).substr(5),
                         word(request_.dtype), three ? 3 : 2, tile_[0], tile_[1], tile_[2], pipeline_);
      row.kernel = made;
    }
    row.problem = problem;
    to_.add(row);
  }

  const std::filesystem::path& file_;
  const ImportRequest& request_;
  Gatherer& to_;
  std::vector<Column> columns_;
  bool named_ = true;
  std::array<std::int64_t, 3> tile_{};
  std::string_view pipeline_;
};

}  // namespace

void read_ck_csv(const std::filesystem::path& file, const ImportRequest& request, Gatherer& to) {
  if (!is_conv(request.op))
    fail(Errc::invalid_argument,
         "ck-csv holds convolutions: give --op conv_fwd, conv_bwd_data or conv_bwd_weight");
  Reader reader(file, request, to);
  each_line(file, [&](std::string_view line, std::size_t number) { reader.line(line, number); });
}

}  // namespace kscout
