#pragma once
/// \file
/// Measures a plan with worker processes and keeps every result in the folder's journal at once.
///
///     SweepReport report = run_sweep(plan, {.folder = "out", .worker = default_worker(), .budget_s = 60});
///
/// Run again after any kind of end, it continues: nothing measured is lost or measured twice. The calling
/// process runs no kernel and opens no device.
#include <array>
#include <atomic>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <string>

#include "measure/problem_bench.h"
#include "sweep/plan.h"

namespace kscout {

struct SweepProgress {
  std::size_t problems_done = 0, problems = 0;  ///< of this shard
  std::size_t rows = 0;                         ///< measured in this session, both passes
  std::size_t failed = 0;                       ///< of them wrong, crashed or timeout
  double share_done = 0;  ///< of the estimated work of this shard, earlier sessions included
  double elapsed_s = 0;
  double left_s = std::numeric_limits<double>::quiet_NaN();  ///< estimate; NaN = not known yet
};

/// SweepOptions::batch for kernels of libraries, as the public tools have it.
inline constexpr std::size_t kLibraryBatch = 20;

struct SweepOptions {
  std::filesystem::path folder = {};
  std::filesystem::path worker = {};                          ///< the worker program
  int workers = 1;                                            ///< each gets its share of the CPUs, or a GPU
  double budget_s = std::numeric_limits<double>::infinity();  ///< stop after so long; run again to continue
  double item_limit_s = 10;  ///< a config that is silent for longer is killed: timeout
  /// Configs that one worker process measures before a new one takes its place; 0: no limit. Bounds what a
  /// kernel that harms its process unseen can spoil. Contenders of a problem stay in one process.
  std::size_t batch = 0;
  int shard = 1, shards = 1;  ///< this process takes every shards-th problem, from the shard-th of the order
  const std::atomic<bool>* stop = nullptr;  ///< set by a signal handler: end now, keep everything
  std::function<void(const SweepProgress&)> progress = {};  ///< after each reply; must be quick
};

struct SweepReport {
  std::string ended;  ///< done, budget, interrupted
  SweepProgress progress;
  std::array<std::size_t, EnumWords<Status>::words.size()>
      by_status{};                             ///< pass-1 rows of the shard, all sessions
  std::size_t contender_rows = 0;              ///< pass-2 rows of the shard, all sessions
  std::map<std::string, std::size_t> reasons;  ///< why rows are not ok, with counts
  TimeSpent spent;                             ///< by the workers, this session
  double rows_per_s = 0;                       ///< this session
  /// Share of the workers' wall time outside kernels, flushes and verification.
  double overhead = 0;
};

/// Throws invalid_argument (the folder holds another sweep), corrupt_data (journal), device_failure (folder
/// or worker program), unsupported (the backend is not on this machine).
SweepReport run_sweep(const SweepPlan& plan, const SweepOptions& options);

/// kscout-worker beside the running program, or in ../libexec/kscout of an installation. Throws not_found.
std::filesystem::path default_worker();

}  // namespace kscout
