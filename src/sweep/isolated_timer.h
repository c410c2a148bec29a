#pragma once
/// \file
/// Times chosen configs of one problem in a worker process. A kernel that crashes, hangs or breaks its device
/// costs one config, not the program.
///
///     IsolatedTimer timer(plan, {.worker = default_worker()});   // a plan of one problem
///     const Outcome first = timer.coarse(4);                     // positions in plan.configs
///     const std::vector<Outcome> best = timer.contenders({4, 0, 7});
///
/// Uses the worker of a sweep, so configs are verified and timed as in a sweep. Keeps nothing on disk.
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "measure/problem_bench.h"
#include "measure/timing.h"
#include "sweep/messages.h"
#include "sweep/plan.h"
#include "sweep/worker_process.h"

namespace kscout {

struct IsolatedTimerOptions {
  std::filesystem::path worker = {};  ///< the worker program
  /// A worker that sends nothing for more than this time is killed; its config gets status timeout.
  double item_limit_s = 10;
  double open_limit_s = 120;  ///< added for the first config: time to make operands and reference
  ReadClock clock = now_ns;   ///< of these limits
};

class IsolatedTimer {
 public:
  /// The plan must outlive the timer. Throws invalid_argument unless it has exactly one problem.
  IsolatedTimer(const SweepPlan& plan, IsolatedTimerOptions options);

  // coarse() and contenders() report a config's failure in its outcome. They throw only when nothing can be
  // measured: device_failure when the worker program does not work, and the worker's own error about the
  // backend (unsupported).

  /// Verifies the config and takes one coarse time (ProblemBench::coarse).
  Outcome coarse(std::uint32_t config);
  /// Times the configs in interleaved rounds (ProblemBench::contenders), or one by one when their worker
  /// crashes. Outcomes are in the order of `configs`.
  std::vector<Outcome> contenders(const std::vector<std::uint32_t>& configs);

 private:
  /// Outcomes received. `ended`: why some are missing; empty when none is.
  struct Measured {
    std::vector<Outcome> outcomes;
    Status status = Status::ok;
    std::string ended;
  };

  void start();
  Measured measure(std::int32_t pass, const std::vector<std::uint32_t>& configs);
  /// Waits for messages until a deadline; false when the worker has ended.
  bool receive(std::vector<std::string>& lines, std::int64_t deadline_ns, bool& timed_out);
  Outcome failed(const Measured& answers, std::int32_t pass) const;

  const SweepPlan& plan_;
  IsolatedTimerOptions options_;
  std::optional<WorkerProcess> worker_;
  bool opens_problem_ = true;  ///< the next reply includes making the operands
  double best_us_ = std::numeric_limits<double>::infinity();
};

}  // namespace kscout
