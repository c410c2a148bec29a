#pragma once
/// \file
/// Chooses the problems whose times a model's folder records for `kscout check`.
///
///     record_reference_times(folder, tables);      // writes reference_times.csv
#include <filesystem>
#include <span>
#include <vector>

#include "dataset/compact_table.h"
#include "select/reference_times.h"

namespace kscout {

/// Number of problems that a folder records.
inline constexpr std::size_t kReferenceProblems = 20;

/// Number of problems of a table that are tried.
inline constexpr std::size_t kTriedProblems = 1000;

/// The problems of the table that reference_problems() tries, with their rows: all that it needs.
CompactTable tried_problems(const CompactTable& table);

/// Problems of the tables whose choice by the model was measured well, drawn by a hash, the same number from
/// each table as far as possible. Fewer than kReferenceProblems where the tables have fewer; none for a model
/// for any CPU, which has no device of its own, and from tables of another device than the model's.
std::vector<ReferenceProblem> reference_problems(const std::filesystem::path& model,
                                                 std::span<const CompactTable> tables);

/// Writes them into the model's folder; nothing when there are none. Returns their number.
std::size_t record_reference_times(const std::filesystem::path& model, std::span<const CompactTable> tables);

}  // namespace kscout
