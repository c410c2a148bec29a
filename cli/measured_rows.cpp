// Reads datasets for verbs of kscout. Needs Arrow, so only kscout-lab contains it.
#include <algorithm>
#include <cmath>
#include <filesystem>

#include "core/fail.h"
#include "dataset/columns.h"
#include "dataset/dataset.h"
#include "dataset/operations.h"
#include "explain.h"
#include "measured.h"
#include "sweep/journal.h"

namespace kscout::cli {

MeasuredRows read_measured_rows(const std::string& file, const Problem& problem) {
  const MeasurementTable one =
      table_of_problems(read_dataset(file), [&](const Problem& measured) { return measured == problem; });
  MeasuredRows measured_rows;
  for (const auto& rows : final_rows(one)) {
    for (const FinalRow& row : rows) measured_rows.rows.emplace_back(one.configs[row.config], row.measured);
  }
  return measured_rows;
}

MeasuredBests read_bests(const std::string& path) {
  if (path.ends_with(".csv"))
    fail(Errc::invalid_argument, "{}: CSV names no device; turn it into a dataset by kscout dataset import",
         path);
  const MeasurementTable table = std::filesystem::is_directory(path) ? read_sweep(path) : read_dataset(path);
  MeasuredBests bests{.device = table.device, .metadata = table.metadata, .best = {}};
  const auto rows = final_rows(table);
  for (std::size_t p = 0; p < rows.size(); ++p) {
    const auto oracle = oracle_of(rows[p]);
    if (!oracle) continue;
    MeasuredBest best{.problem = table.problems[p],
                      .config = table.configs[oracle->config],
                      .time_us = oracle->measured.time_us,
                      .next_us = Measurement::unknown,
                      .timed = 0};
    for (const FinalRow& row : rows[p]) {
      best.timed += was_timed(row.measured);
      if (row.config != oracle->config && row.measured.status == Status::ok)
        best.next_us = std::fmin(best.next_us, row.measured.time_us);
    }
    bests.best.push_back(std::move(best));
  }
  if (bests.best.empty()) fail(Errc::invalid_argument, "{}: no config was measured with status ok", path);
  return bests;
}

}  // namespace kscout::cli
