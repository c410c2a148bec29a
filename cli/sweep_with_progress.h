#pragma once
/// \file
/// A sweep that a person watches: progress on stderr, Ctrl-C ends it in order.
///
///     const SweepReport report = sweep_with_progress(plan, {.folder = out, .worker = default_worker()}, "sweep");
///     if (report.ended == "interrupted") end_by_signal();
#include <string_view>

#include "sweep/sweep.h"

namespace kscout::cli {

/// run_sweep with a progress bar on a terminal and a plain line every ten seconds elsewhere. SIGINT and
/// SIGTERM end it in order (SweepReport::ended tells); a file size limit becomes an error of write() instead
/// of a signal. `verb` names the caller in messages.
SweepReport sweep_with_progress(const SweepPlan& plan, SweepOptions options, std::string_view verb);

/// From now on SIGINT and SIGTERM are noted for signal_came(); the second one ends the program at once.
void watch_signals();
bool signal_came();

/// Ends as programs do that a signal ended: the shell sees 128 + its number.
void end_by_signal();

}  // namespace kscout::cli
