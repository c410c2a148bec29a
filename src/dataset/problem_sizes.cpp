#include "dataset/problem_sizes.h"

#include <algorithm>

#include "core/fail.h"
#include "core/files.h"
#include "dataset/parquet.h"
#include "op/operation.h"

namespace kscout {

namespace {

/// One column per number of sizes_of() of an operation's problems, in the same order.
std::vector<ColumnSpec> size_columns(const Operation& operation) {
  std::vector<ColumnSpec> specs;
  for (const ProblemField& field : operation.space.fields) {
    if (operation.is_size(field))
      specs.push_back({std::string(field.name), std::string(field.unit), std::string(field.help),
                       ColumnType::int64, /*nullable=*/false});
  }
  return specs;
}

bool has_names(const std::vector<ColumnSpec>& specs, const std::vector<std::string>& names) {
  return std::ranges::equal(specs, names, {}, &ColumnSpec::name);
}

}  // namespace

void write_problem_sizes(const std::filesystem::path& file, Op op, const std::set<ProblemSizes>& sizes) {
  const auto specs = size_columns(operation(op));
  Block block{sizes.size(), std::vector<ColumnValues>(specs.size())};
  for (const ProblemSizes& of_problem : sizes) {
    if (of_problem.size() != specs.size()) {
      fail(Errc::invalid_argument, "{}: {} sizes of a problem where {} are expected", file.string(),
           of_problem.size(), specs.size());
    }
    for (std::size_t c = 0; c < specs.size(); ++c) block.columns[c].whole.push_back(of_problem[c]);
  }
  write_file_atomically(file, parquet_bytes(specs, block, {}));
}

std::set<ProblemSizes> read_problem_sizes(const std::filesystem::path& file) {
  ParquetReader reader(file.string(), file.string());
  const std::vector<std::string>& names = reader.header().names;
  std::vector<ColumnSpec> specs;
  for (const Operation* const one : operations()) {
    if (auto of_op = size_columns(*one); has_names(of_op, names)) specs = std::move(of_op);
  }
  if (specs.empty()) {
    fail(Errc::corrupt_data, "{}: columns {} are not the sizes of problems (m, n, k, batch of a GEMM)",
         file.string(), fmt::join(names, ", "));
  }
  std::set<ProblemSizes> sizes;
  std::size_t row = 0;
  while (const auto block = reader.next(specs)) {
    for (std::size_t r = 0; r < block->rows; ++r) {
      ProblemSizes of_problem;
      for (const ColumnValues& column : block->columns) of_problem.push_back(column.whole[r]);
      ++row;
      if (std::ranges::min(of_problem) < 0)
        fail(Errc::corrupt_data, "{}: row {} holds a size that is null or negative", file.string(), row);
      sizes.insert(std::move(of_problem));
    }
  }
  return sizes;
}

}  // namespace kscout
