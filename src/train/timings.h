#pragma once
/// \file
/// Reads what applications timed (select/decision_db.h) as measurements to train on.
///
///     Timings used = read_timings("decisions.sqlite", tables);
///     tables.push_back(std::move(used.table));
#include <cstddef>
#include <filesystem>
#include <span>

#include "dataset/compact_table.h"

namespace kscout {

struct Timings {
  MeasurementTable table;
  std::size_t other_device = 0;   ///< timings of devices with another name
  std::size_t other_kernels = 0;  ///< of other operations or providers, or with names that do not parse
  std::size_t measured = 0;       ///< of problems that the tables have measurements of
  std::size_t alone = 0;          ///< of problems with a single timing, which compares nothing
};

/// The timings of the device, operation and provider of `tables`, whose metadata the result takes over. Rows
/// are of pass 2 with warm caches, as an application runs them. Leaves out problems that `tables` have,
/// because a sweep knows more configs of them. Throws invalid_argument when nothing is left, naming the
/// counts and the devices of the file; otherwise the errors of DecisionDb.
Timings read_timings(const std::filesystem::path& file, std::span<const CompactTable> tables);

}  // namespace kscout
