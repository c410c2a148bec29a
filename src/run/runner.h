#pragma once
/// \file
/// Runs configs on problems in a child process: chooses, verifies and times them, and survives kernels that
/// crash or hang.
///
///     Runner runner({.configs = {"auto", "default"}, .seconds = 0.3}, Registry::here());
///     for (const RanConfig& one : runner.run(problem)) ...   // one.time.median, one.crash
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <kscout/dispatcher.h>
#include <kscout/error.h>

#include "core/process.h"
#include "measure/load_watch.h"
#include "measure/samples.h"

namespace kscout {

/// The result of one config. A plain struct without pointers to the heap, because the process that runs
/// kernels leaves it in shared memory. The config is stored by name for the same reason.
struct RanConfig {
  char source[16];          ///< what chose it; empty before a choice
  char name[1024];          ///< of the config
  ChoiceSource decided_by;  ///< of the selector's choice
  double predicted_us;      ///< NaN: no prediction
  int host_threads;         ///< threads of one run; 0: of a GPU
  char device[128];         ///< device it ran on
  Backend* backend;         ///< of the registry, which is created before the process; null: no choice
  bool as_asked;            ///< the kernel computes the problem in the form that was asked for
  bool padded;              ///< operands are copied
  char as_run[16384];       ///< the problem of another form
  double error;             ///< 1 = the largest error that float rounding may cause
  char where[256];          ///< first wrong element
  SampleSummary time;       ///< in microseconds
  double copies_us;         ///< median; NaN without copies
  double setup_us;          ///< time of packing the filter once, not part of `time`; NaN: nothing is packed
  char crash[128];          ///< how the process that ran its kernel ended; empty without a crash
  bool timed_out;           ///< the process was ended because the kernel did not return

  bool crashed() const { return crash[0] != 0; }
  bool wrong() const { return !crashed() && !(error <= 1); }
  /// In microseconds; NaN after a crash.
  double run_us() const { return crashed() ? Choice::unknown : time.median; }
};
static_assert(std::is_trivially_copyable_v<RanConfig>);

/// What the process that runs kernels reports about all configs of a problem together.
struct RunReport {
  std::int32_t running = -1;  ///< position of the config whose code runs; -1: none
  bool opened = false;        ///< RunRequest::opening was called
  bool lost_log = false;      ///< lines of KSCOUT_LOG could not be written
  bool failed = false;        ///< the process ended with this error
  Errc code = Errc::device_failure;
  char message[2048] = "";
  char warnings[2048] = "";
  Load load = {};  ///< of the machine, while kernels were verified and timed
};
static_assert(std::is_trivially_copyable_v<RunReport>);

struct RunRequest {
  /// "auto" (the selector's choice), "default" (the rule set's default config), or a kernel's name.
  std::vector<std::string> configs;
  std::string model = {};  ///< folder or file; empty: the first on the search path
  DispatchPolicy policy = {};
  double seconds = 0.3;  ///< to measure each config
  double timeout_s = 0;  ///< seconds for one call of a kernel; 0 = derived from the problem
  /// Called in the child process: once before the first problem; the config of a name, or an error; text for
  /// the user.
  std::function<void()> opening = {};
  std::function<KernelConfig(const std::string&, const Problem&)> named = {};
  std::function<void(const std::string&)> note = {};

  double timeout_of(const Problem& problem) const;
};

class Runner {
 public:
  Runner(RunRequest request, const Registry& registry);

  /// Runs all configs in a child process, and repeats without each config whose kernel crashes it. The
  /// results are in the order of the request, valid until the next call. Throws the child's error.
  std::span<const RanConfig> run(const Problem& problem);
  /// Of the last run.
  const RunReport& report() const noexcept { return report_.all().front(); }

 private:
  void run_here(const Problem& problem);

  RunRequest request_;
  const Registry& registry_;
  SharedArray<RanConfig> ran_;
  SharedArray<RunReport> report_;
};

}  // namespace kscout
