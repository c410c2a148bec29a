#pragma once
/// \file
/// Reads a sweep folder (manifest and journals; one journal per shard) into measurements and counts.
///
///     MeasurementTable table = read_sweep("out");
///
/// Also reads the folder of a running sweep, as far as its lines are complete.
#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <kscout/measurement.h>

#include "sweep/journal_file.h"
#include "sweep/plan.h"

namespace kscout {

/// The contents of all journals of a folder, with their plan.
struct SweepState : JournalContents {
  SweepPlan plan;
  std::string manifest_hash;
};

/// Throws not_found (no manifest), corrupt_data (naming file and line), device_failure.
SweepState read_state(const std::filesystem::path& folder, const SpaceLookup& spaces = provider_space);

/// The rows of the problems that were measured completely. A problem whose passes were interrupted, by the
/// end of the budget or otherwise, is left out: its times are screening samples, and its fastest config may
/// not be measured yet. Where `unfinished` is given, it receives the number of such problems. Metadata:
/// provider, backend, rules, filter, seed, every protocol field as protocol.<name>, the provenance of the
/// manifest, and clock_mhz_min and clock_mhz_max where the device reports its clock.
MeasurementTable read_sweep(const std::filesystem::path& folder, const SpaceLookup& spaces = provider_space,
                            std::size_t* unfinished = nullptr);

/// The journal's file name for a shard: "journal.log", "journal-2of4.log".
std::string journal_name(int shard, int shards);

/// Journals in a folder, by name.
std::vector<std::filesystem::path> journal_files(const std::filesystem::path& folder);

/// Whether an entry of a folder is a file that a sweep writes: the manifest, a journal, the workers' log, or
/// an unfinished version of one of them.
bool is_sweep_file(const std::filesystem::directory_entry& entry);

/// Throws invalid_argument, naming the entry, when the folder of a new sweep holds an entry that `own`
/// rejects.
void check_new_sweep_folder(const std::filesystem::path& folder,
                            const std::function<bool(const std::filesystem::directory_entry&)>& own);

/// Joins all journals of a folder. Each key has at most one row: where files hold several, the row of the
/// first file. Session fields come from the journal with the newest session. Throws the errors of
/// load_journal().
JournalContents merge_journals(const std::filesystem::path& folder, const std::string& manifest_hash,
                               const JournalLimits& limits);

// ---- Counts the contents of a sweep folder, for `kscout sweep --status` and the summary at a sweep's end.
//
//     SweepStatus status = sweep_status("out");

struct SweepStatus {
  std::size_t problems = 0, problems_done = 0;
  LeftOutCounts plan_left_out = {};  ///< what the plan does not contain
  std::size_t pairs = 0;             ///< (problem, config) pairs of the plan
  std::size_t rows = 0;              ///< pairs that were measured in pass 1
  std::size_t contender_rows = 0;    ///< rows of pass 2
  std::size_t noisy = 0;             ///< ok rows of pass 1 whose confidence interval stayed wide
  std::size_t noisy_contenders = 0;  ///< ok rows of pass 2 whose confidence interval stayed wide
  std::array<std::size_t, EnumWords<Status>::words.size()> by_status{};  ///< rows of pass 1
  std::map<std::string, std::size_t> reasons;                            ///< why rows failed, with counts
  std::vector<double> clocks_mhz = {};  ///< of the device, sorted; empty where it reports none
  std::string last_end;  ///< how the newest session ended; empty while it runs or when it was killed

  std::size_t count(Status status) const { return by_status[static_cast<std::size_t>(status)]; }
  /// Rows that show a defect: wrong, crashed or timeout.
  std::size_t defects() const {
    return count(Status::wrong) + count(Status::crashed) + count(Status::timeout);
  }
};

SweepStatus sweep_status(const std::filesystem::path& folder, const SpaceLookup& spaces = provider_space);

/// What a status of a row means, in few words (docs/measuring.md).
std::string_view status_meaning(Status status);

/// A failure reason without the values that differ from row to row (the problem, the element), so that equal
/// reasons can be counted.
std::string general_reason(Status status, const std::string& reason);

// ---- Measures the contenders of a sweep again, on the same problems. Several sweeps average out effects
// that stay constant during one visit to a problem, such as the memory addresses of its operands or the load
// of the machine.
//
//     SweepPlan plan = remeasure_contenders(read_state("runs/first"), device);
//     plan.seed = 17;          // other operands, another order
//     run_sweep(plan, ...);    // then: kscout dataset merge first.parquet again.parquet --keep mean

/// The plan of `before`, with only those configs of each problem that stayed in the rounds of pass 2 to the
/// end; problems without such configs are left out. The seed is that of `before` plus one. Throws
/// invalid_argument when `device` is not the measured one, not_found when no config is left.
SweepPlan remeasure_contenders(const SweepState& before, const Device& device);

}  // namespace kscout
