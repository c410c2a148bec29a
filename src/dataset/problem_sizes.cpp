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
  std::set<ProblemSizes> sizes;
  read_parquet(
      file.string(), file.string(),
      [&](const ParquetHeader& header) {
        for (const Operation* const one : operations()) {
          if (auto specs = size_columns(*one); has_names(specs, header.names)) return specs;
        }
        fail(Errc::corrupt_data, "{}: columns {} are not the sizes of problems (m, n, k, batch of a GEMM)",
             file.string(), fmt::join(header.names, ", "));
      },
      [&](const Block& block) {
        for (std::size_t r = 0; r < block.rows; ++r) {
          ProblemSizes of_problem;
          for (const ColumnValues& column : block.columns) of_problem.push_back(column.whole[r]);
          if (std::ranges::min(of_problem) < 0) {
            fail(Errc::corrupt_data, "{}: row {} holds a size that is null or negative", file.string(),
                 r + 1);
          }
          sizes.insert(std::move(of_problem));
        }
      });
  return sizes;
}

}  // namespace kscout
