#include "measure/load_watch.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include <sys/resource.h>
#include <unistd.h>

#include "core/fail.h"

namespace kscout {

namespace {

/// /proc/stat counts in ticks: over a shorter time, a CPU's share is mostly rounding.
constexpr double kShortestTicks = 10;
/// The kernel's default period of a CPU quota.
constexpr double kQuotaPeriodS = 0.1;

/// Seconds that the CPUs were busy; a line is "cpuN user nice system idle iowait irq softirq steal".
double busy_seconds(const std::string& stat, const std::vector<int>& usable) {
  std::istringstream lines(stat);
  double ticks = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    if (!name.starts_with("cpu") || name.size() == 3) continue;
    if (std::ranges::find(usable, std::atoi(name.c_str() + 3)) == usable.end()) continue;
    double count = 0;
    for (int column = 0; column < 8 && words >> count; ++column) {
      const bool idle = column == 3 || column == 4;
      if (!idle) ticks += count;
    }
  }
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

/// CPU time of this process, or of its children that ended and that it waited for.
double computed_seconds(decltype(RUSAGE_SELF) who) {
  rusage used{};
  getrusage(who, &used);
  return seconds_of(used.ru_utime) + seconds_of(used.ru_stime);
}

}  // namespace

LoadWatch::LoadWatch(ReadText read, ReadClock clock)
    : read_(std::move(read)), clock_(std::move(clock)), start_(now()) {}

LoadWatch::Counters LoadWatch::now() const {
  return {.busy_s = busy_seconds(read_("/proc/stat"), cpus_),
          .own_s = computed_seconds(RUSAGE_SELF) + computed_seconds(RUSAGE_CHILDREN),
          .wall_s = 1e-9 * static_cast<double>(clock_()),
          .throttled = throttled_periods(read_)};
}

Load LoadWatch::seen() const {
  const Counters end = now();
  const double wall_s = end.wall_s - start_.wall_s;
  Load load{.cpus = static_cast<double>(cpus_.size()), .seconds = wall_s};
  const double throttled_s = kQuotaPeriodS * (end.throttled - start_.throttled);
  // The quotas of several cgroups may have stopped the same period.
  load.throttled = throttled_s > 0 ? std::min(throttled_s / std::max(wall_s, kQuotaPeriodS), 1.0) : 0;
  const double others_s = (end.busy_s - start_.busy_s) - (end.own_s - start_.own_s);
  const bool too_short = wall_s * static_cast<double>(sysconf(_SC_CLK_TCK)) < kShortestTicks;
  load.others =
      too_short ? std::numeric_limits<double>::quiet_NaN() : std::clamp(others_s / wall_s, 0.0, load.cpus);
  return load;
}

std::string likely_cause(const Load& load, int threads) {
  constexpr double kBusy = 0.2;  // fraction of one CPU
  if (threads == 0)
    return "unknown, since the GPU's load was not watched; time it while nothing else uses the GPU";
  if (load.throttled > 0)
    return "the CPU quota stopped processes of this cgroup meanwhile; allow fewer threads (--threads) or "
           "raise "
           "the quota";
  if (load.others > kBusy && threads > 1 && load.others + threads > load.cpus + kBusy) {
    return fmt::format(
        "other processes kept {:.2g} of {:.0f} CPUs busy, and the kernel waits for all of its {} threads; "
        "--threads {} leaves them a CPU",
        load.others, load.cpus, threads,
        std::max(1, static_cast<int>(std::floor(load.cpus - load.others + kBusy))));
  }
  if (std::isnan(load.others)) return "timed too short to see what else ran; time longer (--seconds)";
  if (load.others > kBusy)
    return fmt::format("other processes kept {:.2g} of {:.0f} CPUs busy; time it on an idle machine",
                       load.others, load.cpus);
  return "nothing else ran: the prediction is for another machine, clock or cache state; kscout tune "
         "measures "
         "this one";
}

std::string busy_text(const Load& load, double max_share) {
  if (max_share >= 1) return {};
  if (load.others > max_share * load.cpus)
    return fmt::format(
        "other processes kept {:.2g} of {:.0f} CPUs busy, {:.0f} % (limit {:.3g} %); stop them", load.others,
        load.cpus, 100 * load.others / load.cpus, 100 * max_share);
  if (load.throttled > max_share)
    return fmt::format(
        "the CPU quota stopped processes of this cgroup in {:.0f} % of the time (limit {:.3g} %); raise it",
        100 * load.throttled, 100 * max_share);
  return {};
}

Load joined(const Load& a, const Load& b) {
  // A time too short to see others tells nothing.
  if (!(a.seconds > 0) || std::isnan(a.others)) return b;
  if (!(b.seconds > 0) || std::isnan(b.others)) return a;
  const double seconds = a.seconds + b.seconds;
  const auto mean = [&](double of_a, double of_b) { return (a.seconds * of_a + b.seconds * of_b) / seconds; };
  return {.cpus = b.cpus,
          .others = mean(a.others, b.others),
          .throttled = mean(a.throttled, b.throttled),
          .seconds = seconds};
}

Load load_during(const std::function<void()>& work) {
  const LoadWatch watch;
  work();
  return watch.seen();
}

void wait_a_second() { std::this_thread::sleep_for(std::chrono::seconds(1)); }

}  // namespace kscout
