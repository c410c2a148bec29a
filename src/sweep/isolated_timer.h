#pragma once
/// \file
/// Times chosen configs of one problem in a worker process: a kernel that crashes, hangs or breaks its device
/// costs one config, not the program.
///
///     IsolatedTimer timer(plan, {.worker = default_worker()});   // a plan of one problem
///     const Outcome first = timer.coarse(4);                     // positions in plan.configs
///     const std::vector<Outcome> best = timer.contenders({4, 0, 7});
///
/// The worker is that of a sweep, so configs are verified and timed as there. Nothing is kept on disk.
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "measure/problem_bench.h"
#include "sweep/messages.h"
#include "sweep/plan.h"
#include "sweep/worker_process.h"

namespace kscout {

struct IsolatedTimerOptions {
  std::filesystem::path worker = {};  ///< the worker program
  double item_limit_s = 10;           ///< a config that is silent for longer is killed: timeout
  double open_limit_s = 120;          ///< on top, for operands and reference before the first config
};

class IsolatedTimer {
 public:
  /// The plan must outlive the timer. Throws invalid_argument when it is not of one problem.
  IsolatedTimer(const SweepPlan& plan, IsolatedTimerOptions options);

  // Both never throw for what a config does: its outcome says so. They throw device_failure when the worker
  // program cannot work at all, and what it says against the backend (unsupported).

  /// Verifies the config and takes one coarse time (ProblemBench::coarse).
  Outcome coarse(std::uint32_t config);
  /// Times the configs in interleaved rounds (ProblemBench::contenders); one by one when their worker dies.
  /// Outcomes in the order asked.
  std::vector<Outcome> contenders(const std::vector<std::uint32_t>& configs);

 private:
  /// Outcomes as far as they came. `ended`: why not all, empty when all did.
  struct Measured {
    std::vector<Outcome> outcomes;
    Status status = Status::ok;
    std::string ended;
  };

  void start();
  Measured measure(std::int32_t pass, const std::vector<std::uint32_t>& configs);
  /// Waits for messages until a deadline; false when the worker is gone.
  bool receive(std::vector<std::string>& lines, std::int64_t deadline_ns, bool& timed_out);
  Outcome failed(const Measured& answers, std::int32_t pass) const;

  const SweepPlan& plan_;
  IsolatedTimerOptions options_;
  std::optional<WorkerProcess> worker_;
  bool opens_problem_ = true;  ///< the next reply includes making the operands
  double best_us_ = std::numeric_limits<double>::infinity();
};

}  // namespace kscout
