#pragma once
/// \file
/// Observes the load of a machine during a timing: explains a time far from its prediction, and says when the
/// machine is too busy for timings.
///
///     LoadWatch watch;
///     ...                                     // the timed work
///     const std::string cause = likely_cause(watch.seen(), /*threads=*/2);
///     const std::string busy = busy_text(watch.seen());      // empty: idle enough
#include <functional>
#include <string>
#include <vector>

#include "core/device_facts.h"
#include "core/thread_limit.h"
#include "measure/timing.h"

namespace kscout {

/// The load since a LoadWatch was created.
struct Load {
  double cpus = 0;    ///< CPUs that this process may use
  double others = 0;  ///< average number of these CPUs that other processes kept busy; NaN = time too short
  double throttled = 0;  ///< share of the quota's periods in which it stopped the cgroup's processes
  double seconds = 0;    ///< how long was watched
};

/// The processes that this process started and waited for count as this process; so a watch ends after them.
class LoadWatch {
 public:
  /// `read`: reads files of /proc and /sys.
  explicit LoadWatch(ReadText read = read_text_file, ReadClock clock = now_ns);
  Load seen() const;

 private:
  /// Seconds since boot that the usable CPUs were busy, and that this process and its ended children
  /// computed.
  struct Counters {
    double busy_s, own_s, wall_s, throttled;
  };
  Counters now() const;

  ReadText read_;
  ReadClock clock_;
  std::vector<int> cpus_ = usable_cpus();  ///< before the calling thread is pinned to one of them
  Counters start_;
};

/// The most likely reason why a kernel was slower than predicted, with the remedy. `threads`: threads of the
/// kernel on the CPU; 0 for a GPU, whose load is not observed.
std::string likely_cause(const Load& load, int threads);

/// The share of the CPUs' time up to which a machine counts as idle. Kernels that use every CPU wait for the
/// slowest one.
inline constexpr double kMaxBusyShare = 0.1;

/// Why a machine is too busy for timings, with the limit and the remedy: other processes, or throttling, took
/// more than a share of the time. Empty when they did not, when the time was too short to see them, and for a
/// share of 1.
std::string busy_text(const Load& load, double max_share = kMaxBusyShare);

/// The load of two times together.
Load joined(const Load& a, const Load& b);

/// The load while some work is done; `wait_a_second` is the work that shows what others do.
Load load_during(const std::function<void()>& work);
void wait_a_second();

/// Ratio of a time to its prediction, or of the prediction to the time, that causes a warning.
inline constexpr double kFarFromPrediction = 2;

}  // namespace kscout
