#pragma once
/// \file
/// Writes and reads the sizes of problems as Parquet, one row each: a model folder lists its training sizes
/// this way.
///
///     write_problem_sizes(file, Op::gemm, {{16, 4096, 4096, 1}, {32, 64, 64, 1}});
///     const std::set<ProblemSizes> sizes = read_problem_sizes(file);
#include <filesystem>
#include <set>

#include <kscout/any_problem.h>

namespace kscout {

/// Names columns after the fields that sizes_of() reads of problems of `op`: m, n, k, batch for GEMMs. Throws
/// invalid_argument for a list of another length.
void write_problem_sizes(const std::filesystem::path& file, Op op, const std::set<ProblemSizes>& sizes);

/// Throws corrupt_data naming the file when it is no table of sizes.
std::set<ProblemSizes> read_problem_sizes(const std::filesystem::path& file);

}  // namespace kscout
