#pragma once
/// \file
/// Writes reports: one self-contained HTML page about a model, a dataset or a sweep.
///
///     write_file_atomically("report.html", report_page(model_report("model", table, {})));
///
/// The functions `*_report` gather what a page shows, as JSON (src/report/plots.js reads it). A page opens
/// without a network and has at most kMaxReportBytes: of many problems it shows a part, and figures that
/// count all of them.
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include <kscout/measurement.h>

#include "evaluate/evaluate_model.h"

namespace kscout {

inline constexpr std::size_t kMaxReportBytes = 5'000'000;
/// Limit of the JSON text; the rest of a page has a constant size.
inline constexpr std::size_t kMaxReportData = 3'500'000;
/// Number of problems that plots show at most, and of the worst problems in the table.
inline constexpr std::size_t kMaxShownProblems = 2000, kReportedWorst = 25;

/// A model's choices on the problems of a table, beside those of the baselines. Choices that the library
/// refuses are skipped, as a dispatcher does: `how.pool` has no effect. Throws the errors of
/// evaluate_model().
std::string model_report(const std::filesystem::path& model, const CompactTable& table,
                         ModelEvaluationOptions how);

/// What a choice among the measured configs of a table is worth: the best fixed config and the other
/// baselines. `name`: of the dataset, for the title. Throws invalid_argument when no problem has a usable
/// row.
std::string dataset_report(const std::string& name, const CompactTable& table);

/// A sweep's progress, rate, failures by reason, noise and clocks, and the report of its measurements as far
/// as problems are measured completely. Throws the errors of read_sweep().
std::string sweep_report(const std::filesystem::path& folder);

/// The page of a report's JSON. Throws unsupported when this program was built without the library of plots.
std::string report_page(std::string_view json);

}  // namespace kscout
