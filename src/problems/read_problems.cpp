// Reads problems from text and CSV.
#include <algorithm>

#include "core/fail.h"
#include "core/field_text.h"
#include "core/files.h"
#include "core/given_fields.h"
#include "core/names.h"
#include "problems/problem_sets.h"

namespace kscout {

namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

/// Cells of a CSV line, without the blanks and plain quotes around them: no field's text contains a comma or
/// a quote.
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

/// Splits "16x64x32" into sizes; accepts x and X.
std::vector<std::string_view> crossed(std::string_view line) {
  std::vector<std::string_view> sizes;
  for (std::size_t begin = 0; begin <= line.size();) {
    const std::size_t end = std::min(line.find_first_of("xX", begin), line.size());
    sizes.push_back(trimmed(line.substr(begin, end - begin)));
    begin = end + 1;
  }
  return sizes;
}

std::string in_lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

/// The differences between the two kinds of problems: plain sizes and required columns.
template <class P>
struct Kind;

template <>
struct Kind<GemmProblem> {
  static constexpr std::string_view required[] = {"m", "n", "k"};
  static constexpr std::string_view what = "a GEMM", others = "convolutions";
  static constexpr bool conv = false;
  static GemmProblem plain_sizes(std::string_view line, DType dtype) {
    const auto cells = line.find_first_of("xX") == std::string_view::npos ? cells_of(line) : crossed(line);
    if (cells.size() != 3) {
      fail(Errc::corrupt_data, "'{}': write gemm:MxNxK..., MxNxK, m,n,k, or a CSV table with a header", line);
    }
    return make_gemm(parse_field<std::int64_t>("m", cells[0]), parse_field<std::int64_t>("n", cells[1]),
                     parse_field<std::int64_t>("k", cells[2]), dtype);
  }
};

template <>
struct Kind<ConvProblem> {
  static constexpr std::string_view required[] = {"op", "n", "c", "k", "h", "w", "y", "x"};
  static constexpr std::string_view what = "a convolution", others = "GEMMs";
  static constexpr bool conv = true;
  static ConvProblem plain_sizes(std::string_view line, DType /*dtype*/) {
    fail(Errc::corrupt_data, "'{}': write conv_fwd:NxCxHxW:KxYxX..., or a CSV table with a header", line);
  }
};

/// Reads line by line; the first line decides the form of the text.
template <class P>
class ProblemReader {
 public:
  explicit ProblemReader(DType usual) : usual_(usual) {}

  P read(std::string_view line) const {
    if (!columns_.empty()) {
      const auto cells = cells_of(line);
      if (cells.size() != columns_.size()) {
        fail(Errc::corrupt_data, "{} cells under {} columns", cells.size(), columns_.size());
      }
      return from_cells(cells);
    }
    if (line.find(':') != std::string_view::npos) {
      if (is_conv(op_of_line(line)) != Kind<P>::conv) {
        fail(Errc::corrupt_data,
             "'{}' is among {}: the first problem of the file is {}; put {} into a file "
             "of their own",
             line, Kind<P>::conv ? "convolutions" : "GEMMs", Kind<P>::what, Kind<P>::others);
      }
      return problem_of(fields_of_line(line), usual_).template as<P>();
    }
    const P problem = Kind<P>::plain_sizes(line, usual_);
    check(problem);
    return problem;
  }
  /// Reads a CSV header; false when the line is none.
  bool take_header(std::string_view line) {
    const auto first = cells_of(line);
    if (line.find(':') != std::string_view::npos || starts_a_number(first[0])) return false;
    const std::vector<std::string_view> known = given_names<P>();
    for (const auto cell : first) {
      std::string column = in_lower_case(cell);  // M,N,K as well as m,n,k
      index_of_word("column", column, known);
      if (std::ranges::find(columns_, column) != columns_.end()) {
        fail(Errc::corrupt_data, "column '{}' is given twice", cell);
      }
      columns_.push_back(std::move(column));
    }
    for (const std::string_view name : Kind<P>::required) {
      if (std::ranges::find(columns_, name) == columns_.end())
        fail(Errc::corrupt_data, "column '{}' is missing", name);
    }
    return true;
  }

 private:
  static bool starts_a_number(std::string_view cell) {
    return cell.empty() || (cell.front() >= '0' && cell.front() <= '9') || cell.front() == '-';
  }
  /// Empty cells keep defaults. The columns are fields by name, as in a one-line form.
  P from_cells(const std::vector<std::string_view>& cells) const {
    std::vector<GivenField> given;
    if constexpr (Kind<P>::conv) given.push_back({"op", word(Op::conv_fwd), GivenAs::implied});
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (!cells[i].empty()) given.push_back({columns_[i], cells[i]});
    }
    return problem_of(given, usual_).template as<P>();
  }

  std::vector<std::string> columns_;
  DType usual_;
};

/// Calls use(line, number) for the lines with content, in order, until it returns false.
template <class F>
void for_each_line(std::string_view text, F&& use) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = trimmed(text.substr(begin, end - begin));
    begin = end + 1;
    ++number;
    if (!line.empty() && line.front() != '#' && !use(line, number)) return;
  }
}

template <class P>
std::vector<P> parse_kind(std::string_view text, std::string_view source, DType usual) {
  ProblemReader<P> reader(usual);
  std::vector<P> problems;
  bool first = true;
  for_each_line(text, [&](std::string_view line, std::size_t number) {
    try {
      const bool header = std::exchange(first, false) && reader.take_header(line);
      if (!header) problems.push_back(reader.read(line));
    } catch (const Error& error) {
      fail(Errc::corrupt_data, "{}:{}: {}", source, number, error.what());
    }
    return true;
  });
  if (problems.empty()) fail(Errc::corrupt_data, "{}: holds no problem", source);
  return problems;
}

}  // namespace

std::string read_problem_text(const std::filesystem::path& file) {
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored))
    fail(Errc::not_found, "{}: cannot be read (is a folder); name a file of problems", file.string());
  return read_file(file);
}

std::vector<GemmProblem> parse_problems(std::string_view text, std::string_view source, DType usual) {
  return parse_kind<GemmProblem>(text, source, usual);
}
std::vector<ConvProblem> parse_conv_problems(std::string_view text, std::string_view source, DType usual) {
  return parse_kind<ConvProblem>(text, source, usual);
}

bool holds_conv_problems(const std::filesystem::path& file) {
  return is_text_of_convs(read_problem_text(file));
}

bool is_text_of_convs(std::string_view text) {
  bool conv = false;
  for_each_line(text, [&](std::string_view line, std::size_t /*number*/) {
    const auto cells = cells_of(line);
    conv = is_conv_line(line) ||
           std::ranges::any_of(cells, [](std::string_view cell) { return cell == "y" || cell == "Y"; });
    return false;
  });
  return conv;
}

std::vector<GemmProblem> read_problems(const std::filesystem::path& file, DType usual) {
  return parse_problems(read_problem_text(file), file.string(), usual);
}
std::vector<ConvProblem> read_conv_problems(const std::filesystem::path& file, DType usual) {
  return parse_conv_problems(read_problem_text(file), file.string(), usual);
}

}  // namespace kscout
