#pragma once
/// \file
/// What a sweep folder holds, counted: `kscout sweep --status` and the summary at a sweep's end.
///
///     SweepStatus status = sweep_status("out");
#include <array>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "sweep/journal.h"

namespace kscout {

struct SweepStatus {
  std::size_t problems = 0, problems_done = 0;
  std::size_t pairs = 0;           ///< (problem, config) of the plan
  std::size_t rows = 0;            ///< of them measured (pass 1)
  std::size_t contender_rows = 0;  ///< pass 2
  std::size_t noisy = 0;           ///< ok rows whose interval stayed wide
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

}  // namespace kscout
