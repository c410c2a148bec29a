#pragma once
/// \file
/// Gives tables of measurements to functions that take compact ones.
///
///     make_training_set(test::compact({&table, 1}), families, schema);
#include <span>
#include <vector>

#include "dataset/compact_table.h"

namespace kscout::test {

inline std::vector<CompactTable> compact(std::span<const MeasurementTable> tables) {
  return {tables.begin(), tables.end()};
}

}  // namespace kscout::test
