#pragma once
/// \file
/// Reads a sweep folder back: manifest and journals (several when shards wrote it) -> measurements and
/// counts.
///
///     MeasurementTable table = read_sweep("out");
///
/// A sweep may still be writing: what is complete is read.
#include <array>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <kscout/measurement.h>

#include "sweep/journal_file.h"
#include "sweep/plan.h"

namespace kscout {

/// What the journals hold together, with the plan that they belong to.
struct SweepState : JournalContents {
  SweepPlan plan;
  std::string manifest_hash;
};

/// Throws not_found (no manifest), corrupt_data (naming file and line), device_failure.
SweepState read_state(const std::filesystem::path& folder, const SpaceLookup& spaces = provider_space);

/// The problems that were measured to their end. One that is still in its passes, where a sweep was
/// interrupted or its budget ended, is left out: its times are screening samples, and its fastest config may
/// not have had its turn. `unfinished`, where given, is how many those are. Metadata: provider, backend,
/// rules, filter, seed, every protocol field as protocol.<name>, the provenance of the manifest, and
/// clock_mhz_min and clock_mhz_max where the device told.
MeasurementTable read_sweep(const std::filesystem::path& folder, const SpaceLookup& spaces = provider_space,
                            std::size_t* unfinished = nullptr);

/// The journal of a shard: "journal.log", "journal-2of4.log".
std::string journal_name(int shard, int shards);

/// Journals in a folder, by name.
std::vector<std::filesystem::path> journal_files(const std::filesystem::path& folder);

/// Whether a sweep writes a file of this name into its folder: the manifest, a journal, the workers' log, or
/// one of them that was not finished.
bool is_sweep_file(std::string_view name);

/// All journals in a folder as one: at most one row per key, of two shards' rows the first file's; sessions
/// as in the journal with the newest one. Throws as load_journal.
JournalContents merge_journals(const std::filesystem::path& folder, const std::string& manifest_hash,
                               const JournalLimits& limits);

// ---- What a sweep folder holds, counted: `kscout sweep --status` and the summary at a sweep's end.
//
//     SweepStatus status = sweep_status("out");

struct SweepStatus {
  std::size_t problems = 0, problems_done = 0;
  std::size_t pairs = 0;             ///< (problem, config) of the plan
  std::size_t rows = 0;              ///< of them measured (pass 1)
  std::size_t contender_rows = 0;    ///< pass 2
  std::size_t noisy = 0;             ///< ok rows of pass 1 whose interval stayed wide
  std::size_t noisy_contenders = 0;  ///< the same of pass 2
  std::array<std::size_t, EnumWords<Status>::words.size()> by_status{};  ///< pass 1
  std::map<std::string, std::size_t> reasons;                            ///< why rows failed, with counts
  std::vector<double> clocks_mhz = {};  ///< of the device, sorted; empty where it does not say
  std::string last_end;  ///< how the newest session ended; empty while it runs or when it was killed

  std::size_t count(Status status) const { return by_status[static_cast<std::size_t>(status)]; }
  /// Rows that tell of a defect: wrong, crashed or timeout.
  std::size_t defects() const {
    return count(Status::wrong) + count(Status::crashed) + count(Status::timeout);
  }
};

SweepStatus sweep_status(const std::filesystem::path& folder, const SpaceLookup& spaces = provider_space);

/// A reason without what differs from element to element, so that equal ones can be counted.
std::string general_reason(Status status, const std::string& reason);

// ---- A sweep's contenders once more, on the same problems: what one visit to a problem cannot see (where
// its operands lie in memory, what the machine did in those seconds) is averaged out over several.
//
//     SweepPlan plan = remeasure_contenders(read_state("runs/first"), device);
//     plan.seed = 17;          // other operands, another order
//     run_sweep(plan, ...);    // then: kscout dataset merge first.parquet again.parquet --keep mean

/// The plan of `before` with, of each problem, only the configs that stayed in the rounds of its pass 2 to
/// their end; problems without any are left out. Seed: that of `before` plus one. Throws invalid_argument
/// when `device` is not the one that was measured, not_found when nothing contended.
SweepPlan remeasure_contenders(const SweepState& before, const Device& device);

}  // namespace kscout
