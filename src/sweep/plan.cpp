#include "sweep/plan.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <fstream>
#include <numeric>

#include <sys/utsname.h>

#include "core/build_info.h"
#include "core/fail.h"

namespace kscout {

std::size_t SweepPlan::pairs() const {
  std::size_t count = 0;
  for (const auto& list : candidates) count += list.size();
  return count;
}

std::vector<std::uint32_t> seeded_order(std::size_t count, std::uint64_t seed) {
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  for (std::size_t i = count; i > 1; --i) {
    seed = mix_hash(seed, i);
    std::swap(order[i - 1], order[seed % i]);
  }
  return order;
}

std::map<std::string, std::string> host_provenance() {
  std::map<std::string, std::string> facts;
  const BuildInfo& build = build_info();
  facts["kscout_version"] = build.version;
  facts["git_version"] = build.git;
  facts["compiler"] = fmt::format("{} {}", build.compiler, build.flags);
  utsname system{};
  if (uname(&system) == 0) {
    // What follows the version names the build of a distribution or of one site.
    const std::string_view release = system.release;
    facts["system"] =
        fmt::format("{} {} {}", system.sysname, release.substr(0, release.find('-')), system.machine);
  }
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (!line.starts_with("model name")) continue;
    facts["cpu_model"] = line.substr(std::min(line.find(": ") + 2, line.size()));
    break;
  }
  char text[32] = {};
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  facts["created"] = text;
  return facts;
}

double estimate_seconds(const SweepPlan& plan, std::size_t problem) {
  // A config gets about four calls, most of them far from the peak; verification reads the operands once.
  constexpr double kCalls = 4, kShareOfPeak = 0.35;
  struct Speed {
    double flop_per_us, bytes_per_us, fixed_us;
  };
  const Device& device = plan.device;
  const auto or_else = [](double fact, double otherwise) { return std::isfinite(fact) ? fact : otherwise; };
  Speed speed{1e3 * or_else(peak_fp32_gflops(device), 100.0), 8e3, 150};
  if (device.kind == DeviceKind::gpu) {
    // Multiplications that a core's matrix units start per cycle with 16-bit operands.
    constexpr double kFlopPerCycle = 2048;
    speed = {or_else(device.cores, 100) * or_else(device.max_clock_mhz, 1500) * kFlopPerCycle,
             1e3 * or_else(device.memory_gb_s, 1000), 500};
  }
  const Problem& p = plan.problems[problem];
  const double call_us =
      std::max(flop_count(p) / (kShareOfPeak * speed.flop_per_us), least_bytes(p) / speed.bytes_per_us);
  return static_cast<double>(plan.candidates[problem].size()) * (speed.fixed_us + kCalls * call_us) / 1e6;
}

std::vector<std::uint32_t> measuring_order(const SweepPlan& plan, int shard, int shards) {
  std::vector<std::uint32_t> mine;
  const auto order = seeded_order(plan.problems.size(), plan.seed);
  for (auto i = static_cast<std::size_t>(shard - 1); i < order.size(); i += static_cast<std::size_t>(shards))
    mine.push_back(order[i]);
  return mine;
}

}  // namespace kscout
