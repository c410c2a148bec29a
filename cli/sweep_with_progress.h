#pragma once
/// \file
/// Runs a sweep with progress on stderr; Ctrl-C ends it cleanly.
///
///     const SweepReport report =
///         sweep_with_progress(plan, {.folder = out, .worker = default_worker()}, "sweep");
///     if (report.ended == "interrupted") end_by_signal();
#include <atomic>
#include <string_view>

#include <kscout/measurement.h>

#include "sweep/sweep.h"

namespace kscout::cli {

/// Prints on stderr what the plan leaves out; nothing when it leaves nothing out.
void report_left_out(const SweepPlan& plan, std::string_view verb);

/// Reports what is left out, then calls run_sweep with a progress bar on a terminal and a plain line every
/// ten seconds elsewhere. SIGINT and SIGTERM end the sweep cleanly (see SweepReport::ended); exceeding a file
/// size limit becomes an error of write() instead of a signal. `verb` names the caller in messages.
SweepReport sweep_with_progress(const SweepPlan& plan, SweepOptions options, std::string_view verb);

/// Measures a plan in a temporary folder with one worker. Ctrl-C ends the program.
MeasurementTable measure_plan(const SweepPlan& plan, std::string_view verb);

/// From now on SIGINT and SIGTERM are recorded for signal_came(); a second signal ends the program at once.
void watch_signals();
const std::atomic<bool>& signal_came();

/// Ends the program with the received signal: the shell sees exit code 128 + its number.
void end_by_signal();

}  // namespace kscout::cli
