#pragma once
/// \file
/// A sweep folder read back: manifest and journals (several when shards wrote it) -> measurements.
///
///     MeasurementTable table = read_sweep("out");
///
/// A sweep may still be writing: what is complete is read.
#include <filesystem>

#include <kscout/measurement.h>

#include "sweep/journal_file.h"
#include "sweep/plan.h"

namespace kscout {

struct SweepState {
  SweepPlan plan;
  std::string manifest_hash;
  std::vector<JournalRow> rows;      ///< at most one per key; of two shards' rows the first file's
  std::vector<std::string> reasons;  ///< what JournalRow::reason counts
  std::map<SweepKey, int> deaths;
  std::vector<double> clocks_mhz;  ///< of the device, whenever a batch was done
  std::string last_end;  ///< how the newest session ended; empty while it runs or when it was killed
};

/// Throws not_found (no manifest), corrupt_data (naming file and line), device_failure.
SweepState read_state(const std::filesystem::path& folder, const SpaceLookup& spaces = provider_space);

/// Everything measured. Metadata: provider, backend, rules, filter, seed, every protocol field as
/// protocol.<name>, the provenance of the manifest, and clock_mhz_min and clock_mhz_max where the device
/// told.
MeasurementTable read_sweep(const std::filesystem::path& folder, const SpaceLookup& spaces = provider_space);

/// The journal of a shard: "journal.log", "journal-2of4.log".
std::string journal_name(int shard, int shards);

/// Journals in a folder, by name.
std::vector<std::filesystem::path> journal_files(const std::filesystem::path& folder);

}  // namespace kscout
