// Reads problems from text and CSV.
#include <algorithm>

#include "core/fail.h"
#include "core/files.h"
#include "core/names.h"
#include "op/given_fields.h"
#include "op/lines.h"
#include "op/problem_sets.h"

namespace kscout {

namespace {

std::string in_lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

/// Reads line by line; the first line decides the form of the text. `mixed`: one-line forms may be of other
/// operations.
class ProblemReader {
 public:
  ProblemReader(const Operation& operation, DType usual, bool mixed)
      : operation_(operation), usual_(usual), mixed_(mixed) {}

  Problem read(std::string_view line) const {
    if (!columns_.empty() && !(mixed_ && line_op(line))) {
      const auto cells = cells_of(line);
      if (cells.size() != columns_.size()) {
        fail(Errc::corrupt_data, "{} cells under {} columns", cells.size(), columns_.size());
      }
      return from_cells(cells);
    }
    if (line.find(':') != std::string_view::npos) {
      const Operation& other = operation(op_of_line(line));
      if (!mixed_ && &other != &operation_) {
        fail(Errc::corrupt_data,
             "'{}' is among {}: the first problem of the file is a {}; put {} into a file of their own", line,
             operation_.plural, operation_.noun, other.plural);
      }
      return problem_of(fields_of_line(line), usual_);
    }
    const Problem problem = operation_.from_sizes(line, usual_);
    check(problem);
    return problem;
  }
  /// Reads a CSV header; false when the line is none.
  bool take_header(std::string_view line) {
    const auto first = cells_of(line);
    if (line.find(':') != std::string_view::npos || starts_a_number(first[0])) return false;
    const std::vector<std::string_view> known = operation_.given_names();
    for (const auto cell : first) {
      std::string column = in_lower_case(cell);  // M,N,K as well as m,n,k
      index_of_word("column", column, known);
      if (std::ranges::find(columns_, column) != columns_.end()) {
        fail(Errc::corrupt_data, "column '{}' is given twice", cell);
      }
      columns_.push_back(std::move(column));
    }
    for (const std::string_view name : operation_.needed_cells) {
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
  Problem from_cells(const std::vector<std::string_view>& cells) const {
    std::vector<GivenField> given{{"op", word(operation_.ops.front()), GivenAs::implied}};
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const bool needed =
          std::ranges::find(operation_.needed_cells, columns_[i]) != operation_.needed_cells.end();
      if (cells[i].empty() && needed)
        fail(Errc::corrupt_data, "column '{}' is empty; give its number", columns_[i]);
      if (!cells[i].empty()) given.push_back({columns_[i], cells[i]});
    }
    return problem_of(given, usual_);
  }

  const Operation& operation_;
  std::vector<std::string> columns_;
  DType usual_;
  bool mixed_;
};

/// Calls use(line, number) for the lines with content, in order, until it returns false.
template <class F>
void for_each_line(std::string_view text, F&& use) {
  text = without_byte_order_mark(text);
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = trimmed(text.substr(begin, end - begin));
    begin = end + 1;
    ++number;
    if (!line.empty() && line.front() != '#' && !use(line, number)) return;
  }
}

std::vector<Problem> read_with(ProblemReader reader, std::string_view text, std::string_view source) {
  std::vector<Problem> problems;
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

std::vector<Problem> parse_problems_of(const Operation& operation, std::string_view text,
                                       std::string_view source, DType usual) {
  return read_with({operation, usual, /*mixed=*/false}, text, source);
}

std::vector<Problem> parse_any_problems(std::string_view text, std::string_view source, DType usual) {
  return read_with({operation_of_text(text), usual, /*mixed=*/true}, text, source);
}

const Operation& operation_of_text(std::string_view text) noexcept {
  const Operation* found = operations().front();
  for_each_line(text, [&](std::string_view line, std::size_t /*number*/) {
    if (const auto op = line_op(line)) {
      found = &operation(*op);
      return false;
    }
    for (const std::string_view cell : cells_of(line)) {
      for (const Operation* const one : operations()) {
        if (!one->own_column.empty() && in_lower_case(cell) == one->own_column) found = one;
      }
    }
    return false;
  });
  return *found;
}

ProblemsByOperation by_operation(const std::vector<Problem>& problems) {
  ProblemsByOperation groups;
  for (const Problem& problem : problems) {
    const Operation* const of = &operation(problem.op());
    auto group = std::ranges::find(groups, of, &ProblemsByOperation::value_type::first);
    if (group == groups.end()) group = groups.insert(group, {of, {}});
    group->second.push_back(problem);
  }
  return groups;
}

std::string lines_of_record(std::string text, std::string_view source) {
  std::string lines;
  std::size_t written = 0;  // lines, so that errors name the right one
  bool is_record = false;
  for_each_line(text, [&](std::string_view line, std::size_t number) {
    if (!is_record) return is_record = line == kRecordHeader;
    const auto cells = cells_of(line);
    if (cells.size() != cells_of(kRecordHeader).size())
      fail(Errc::corrupt_data, "{}:{}: '{}' has {} cells; a row of a record is {}", source, number, line,
           cells.size(), kRecordHeader);
    lines.append(number - 1 - written, '\n').append(cells[0]).append(":weight=").append(cells[1]) += '\n';
    written = number;
    return true;
  });
  return is_record ? lines : std::move(text);
}

std::string read_problem_text(const std::filesystem::path& file) {
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored))
    fail(Errc::not_found, "{}: cannot be read (is a folder); name a file of problems", file.string());
  return lines_of_record(read_plain_text(file), file.string());
}

std::vector<Problem> read_any_problems(const std::filesystem::path& file, DType usual) {
  return parse_any_problems(read_problem_text(file), file.string(), usual);
}

const Operation* operation_of_set(std::string_view name) noexcept {
  for (const Operation* const one : operations()) {
    const auto sets = one->sets();
    if (std::ranges::find(sets, name, &ProblemSetInfo::name) != sets.end()) return one;
  }
  return nullptr;
}

double group_fraction(ProblemRef problem, std::uint64_t seed, SplitBy by) {
  std::uint64_t hash = mix_hash(0, seed);
  for (const std::int64_t size : group_of(problem, by))
    hash = mix_hash(hash, static_cast<std::uint64_t>(size));
  return static_cast<double>(hash >> 11) * 0x1p-53;
}

}  // namespace kscout
