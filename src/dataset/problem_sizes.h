#pragma once
/// \file
/// Writes and reads the sizes of problems as Parquet, one row each: a model folder lists its training sizes
/// this way.
///
///     write_problem_sizes("models/mine/training_sizes.parquet", {{16, 4096, 4096, 1}, {32, 64, 64, 1}});
///     const std::set<ProblemSizes> sizes = read_problem_sizes("models/mine/training_sizes.parquet");
#include <filesystem>
#include <set>

#include <kscout/any_problem.h>

namespace kscout {

/// Names columns after the fields that sizes_of() reads: m, n, k, batch for GEMMs, or the numbers of a
/// convolution. Throws invalid_argument when the lists differ in length, or their length is neither that of a
/// GEMM nor that of a convolution.
void write_problem_sizes(const std::filesystem::path& file, const std::set<ProblemSizes>& sizes);

/// Throws corrupt_data naming the file when it is no table of sizes.
std::set<ProblemSizes> read_problem_sizes(const std::filesystem::path& file);

}  // namespace kscout
