#pragma once
/// \file
/// Says what else ran while something was timed, and so why a time may be far from its prediction.
///
///     LoadWatch watch;
///     ...                                     // the timed work
///     const std::string cause = likely_cause(watch.seen(), /*threads=*/2);
#include <string>
#include <vector>

#include "core/device_facts.h"
#include "core/thread_limit.h"

namespace kscout {

/// From the start of a LoadWatch on.
struct Load {
  double cpus = 0;    ///< that this process may use
  double others = 0;  ///< of these, how many other processes kept busy on average; NaN = too short to say
  bool throttled = false;  ///< the cgroup's CPU quota stopped processes of it
};

class LoadWatch {
 public:
  /// `read`: of /proc and /sys.
  explicit LoadWatch(ReadText read = read_text_file);
  Load seen() const;

 private:
  /// Seconds since the machine's start that the usable CPUs were busy, and that this process computed.
  struct Counters {
    double busy_s, own_s, wall_s, throttled;
  };
  Counters now() const;

  ReadText read_;
  std::vector<int> cpus_ = usable_cpus();  ///< before anybody ties the calling thread to one of them
  Counters start_;
};

/// What most likely made a kernel slower than predicted, with the remedy. `threads`: of the kernel on the
/// CPU; 0 for a GPU, whose load nobody watched.
std::string likely_cause(const Load& load, int threads);

/// A time this many times its prediction, or its prediction this many times the time, is worth a warning.
inline constexpr double kFarFromPrediction = 2;

}  // namespace kscout
