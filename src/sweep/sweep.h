#pragma once
/// \file
/// Measures a plan with worker processes and writes every result to the folder's journal at once.
///
///     SweepReport report = run_sweep(plan, {.folder = "out", .worker = default_worker(), .budget_s = 60});
///
/// A second run continues after any kind of end: nothing measured is lost or measured twice. The calling
/// process runs no kernel and opens no device.
#include <array>
#include <atomic>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <string>

#include "measure/load_watch.h"
#include "measure/problem_bench.h"
#include "sweep/plan.h"

namespace kscout {

struct SweepProgress {
  std::size_t problems_done = 0, problems = 0;  ///< of this shard
  std::size_t rows = 0;                         ///< measured in this session, both passes
  std::size_t failed = 0;                       ///< of these rows: wrong, crashed or timeout
  double share_done = 0;  ///< share of this shard's estimated work, earlier sessions included
  double elapsed_s = 0;
  double left_s = std::numeric_limits<double>::quiet_NaN();  ///< estimate; NaN = not known yet
};

/// SweepOptions::batch for kernel libraries; the public tools use the same number.
inline constexpr std::size_t kLibraryBatch = 20;

struct SweepOptions {
  std::filesystem::path folder = {};
  std::filesystem::path worker = {};  ///< the worker program
  /// Each gets an equal part of the CPUs, or a GPU.
  int workers = 1;
  /// Stops after this time; run again to continue.
  double budget_s = std::numeric_limits<double>::infinity();
  /// When the budget is over, problems that have begun are still measured to their end.
  bool whole_problems = false;
  /// A worker that sends nothing for more than this time is killed; its config gets status timeout.
  double item_limit_s = 10;
  /// Seconds for building the kernels of one problem before they are measured (Backend::prepare_ahead).
  int compile_budget_s = 20;
  /// Configs that one worker process measures before a new process replaces it; 0: no limit. Bounds the
  /// damage of a kernel that corrupts its process unnoticed. Contenders of a problem stay in one process.
  std::size_t batch = 0;
  /// This process takes every `shards`-th problem of the order, beginning with number `shard`.
  int shard = 1, shards = 1;
  /// Set by a signal handler: stops the sweep, which keeps all results.
  const std::atomic<bool>* stop = nullptr;
  std::function<void(const SweepProgress&)> progress = {};  ///< called after each reply; must be quick
};

struct SweepReport {
  std::string ended;  ///< done, budget, interrupted
  SweepProgress progress;
  std::array<std::size_t, EnumWords<Status>::words.size()>
      by_status{};                             ///< pass-1 rows of the shard, all sessions
  std::size_t contender_rows = 0;              ///< pass-2 rows of the shard, all sessions
  std::map<std::string, std::size_t> reasons;  ///< why rows are not ok, with counts
  TimeSpent spent;                             ///< of the workers, in this session
  double rows_per_s = 0;                       ///< in this session
  /// Share of the workers' wall time outside kernels, flushes and verification.
  double overhead = 0;
  Load load;  ///< of the CPUs in this session; the workers are no others
};

/// Throws invalid_argument (the folder holds another sweep), corrupt_data (journal), device_failure (folder
/// or worker program), unsupported (this machine lacks the backend).
SweepReport run_sweep(const SweepPlan& plan, const SweepOptions& options);

/// Path of kscout-worker: beside the running program, or in ../libexec/kscout of an installation. Throws
/// not_found.
std::filesystem::path default_worker();

}  // namespace kscout
