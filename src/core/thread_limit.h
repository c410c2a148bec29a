#pragma once
/// \file
/// Determines how many threads a kernel on the CPU may use, and the quotas of the process.
///
///     const ThreadLimit limit = thread_limit(/*asked=*/0, device);
///     if (!limit.admits(threads)) refuse(limit.refusal(threads));
#include <limits>
#include <string>

#include <kscout/device.h>

#include "core/device_facts.h"

namespace kscout {

struct ThreadLimit {
  int threads = std::numeric_limits<int>::max();
  std::string because;  ///< source of the limit: "KSCOUT_THREADS"; empty: no limit

  bool admits(int wanted) const noexcept { return wanted <= threads; }
  /// "the config computes with 2 threads, 1 is allowed (OMP_NUM_THREADS)".
  std::string refusal(int wanted) const;
};

/// `asked` when it is above 0, else KSCOUT_THREADS. When neither is set and `device` is this machine's CPU:
/// the minimum of OMP_NUM_THREADS, the number of CPUs that the calling thread may run on and the cgroup's CPU
/// quota (rounded down, at least 1). Throws invalid_argument when a variable is not a number or below 1.
ThreadLimit thread_limit(int asked, const Device& device);

/// The minimum of OMP_NUM_THREADS, the CPUs and the quota, as they are now. Reads files.
ThreadLimit present_thread_limit();

/// CPUs that the quotas of the process's cgroup and its parents allow, cgroup versions 1 and 2; infinite
/// without a quota.
double cpu_quota(const ReadText& read);
/// Bytes that the process's cgroup and its parents, and its limit of addresses (ulimit -v), allow; infinite
/// without a limit.
double memory_quota(const ReadText& read);
/// How often the quota has stopped the process's cgroup so far; 0 when the system does not report it.
double throttled_periods(const ReadText& read);
/// The content of a file, "" when there is none.
std::string read_text_file(const std::string& path);

}  // namespace kscout
