#pragma once
/// \file
/// Observes the load of a machine during a timing, to explain a time far from its prediction.
///
///     LoadWatch watch;
///     ...                                     // the timed work
///     const std::string cause = likely_cause(watch.seen(), /*threads=*/2);
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
  bool throttled = false;  ///< the cgroup's CPU quota stopped its processes
};

class LoadWatch {
 public:
  /// `read`: reads files of /proc and /sys.
  explicit LoadWatch(ReadText read = read_text_file, ReadClock clock = now_ns);
  Load seen() const;

 private:
  /// Seconds since boot that the usable CPUs were busy, and that this process computed.
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

/// Ratio of a time to its prediction, or of the prediction to the time, that causes a warning.
inline constexpr double kFarFromPrediction = 2;

}  // namespace kscout
