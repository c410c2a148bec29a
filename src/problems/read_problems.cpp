// Problems from text and CSV.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "core/fail.h"
#include "core/field_text.h"
#include "problems/problem_sets.h"

namespace kscout {

namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

/// Cells of a CSV line, blanks and plain quotes around them taken off: no field's text holds a comma or a
/// quote.
std::vector<std::string_view> cells_of(std::string_view line) {
  std::vector<std::string_view> cells;
  for (std::size_t begin = 0; begin <= line.size();) {
    const std::size_t end = std::min(line.find(',', begin), line.size());
    std::string_view cell = trimmed(line.substr(begin, end - begin));
    if (cell.size() >= 2 && cell.front() == '"' && cell.back() == '"') cell = cell.substr(1, cell.size() - 2);
    cells.push_back(cell);
    begin = end + 1;
  }
  return cells;
}

/// Reads line after line; the first one decides which form the text has.
class ProblemReader {
 public:
  GemmProblem read(std::string_view line) const {
    if (columns_.empty()) return line.starts_with("gemm") ? parse_problem(line) : plain_sizes(line);
    const auto cells = cells_of(line);
    if (cells.size() != columns_.size()) {
      fail(Errc::corrupt_data, "{} cells under {} columns", cells.size(), columns_.size());
    }
    return from_cells(cells);
  }
  /// True when the line is a CSV header, which it then keeps.
  bool take_header(std::string_view line) {
    const auto first = cells_of(line);
    if (line.starts_with("gemm:") ||
        std::ranges::all_of(first[0], [](char c) { return c >= '0' && c <= '9'; })) {
      return false;
    }
    std::vector<std::string_view> known = field_names<GemmProblem>();
    known.push_back("dtype");
    for (const auto cell : first) {
      index_of_word("column", cell, known);
      if (std::ranges::find(columns_, cell) != columns_.end()) {
        fail(Errc::corrupt_data, "column '{}' stands twice", cell);
      }
      columns_.emplace_back(cell);
    }
    for (const std::string_view name : {"m", "n", "k"}) {
      if (std::ranges::find(columns_, name) == columns_.end())
        fail(Errc::corrupt_data, "column '{}' is missing", name);
    }
    return true;
  }

 private:
  static GemmProblem plain_sizes(std::string_view line) {
    const auto cells = cells_of(line);
    if (cells.size() != 3) {
      fail(Errc::corrupt_data, "'{}': write gemm:MxNxK..., or m,n,k, or a CSV table with a header", line);
    }
    GemmProblem problem =
        make_gemm(parse_field<std::int64_t>("m", cells[0]), parse_field<std::int64_t>("n", cells[1]),
                  parse_field<std::int64_t>("k", cells[2]));
    check(problem);
    return problem;
  }
  /// Empty cells leave defaults. `dtype` comes first: single element types may then differ from it.
  GemmProblem from_cells(const std::vector<std::string_view>& cells) const {
    DType dtype = DType::fp32;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (columns_[i] == "dtype" && !cells[i].empty()) dtype = parse<DType>(cells[i]);
    }
    GemmProblem problem = make_gemm(-1, -1, -1, dtype);
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (columns_[i] != "dtype" && !cells[i].empty()) set_field(problem, columns_[i], cells[i]);
    }
    check(problem);
    return problem;
  }

  std::vector<std::string> columns_;
};

}  // namespace

std::vector<GemmProblem> parse_problems(std::string_view text, std::string_view source) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  ProblemReader reader;
  std::vector<GemmProblem> problems;
  bool first = true;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = trimmed(text.substr(begin, end - begin));
    begin = end + 1;
    ++number;
    if (line.empty() || line.front() == '#') continue;
    try {
      const bool header = std::exchange(first, false) && reader.take_header(line);
      if (!header) problems.push_back(reader.read(line));
    } catch (const Error& error) {
      fail(Errc::corrupt_data, "{}:{}: {}", source, number, error.what());
    }
  }
  if (problems.empty()) fail(Errc::corrupt_data, "{}: holds no problem", source);
  return problems;
}

std::vector<GemmProblem> read_problems(const std::filesystem::path& file) {
  std::error_code ignored;
  std::ifstream in(file, std::ios::binary);
  if (!in || std::filesystem::is_directory(file, ignored)) {
    fail(Errc::not_found, "{}: cannot be read ({})", file.string(),
         in ? "is a folder" : std::strerror(errno));
  }
  std::ostringstream text;
  text << in.rdbuf();
  return parse_problems(std::move(text).str(), file.string());
}

}  // namespace kscout
