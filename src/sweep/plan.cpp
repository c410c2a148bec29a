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
  if (uname(&system) == 0)
    facts["system"] = fmt::format("{} {} {}", system.sysname, system.release, system.machine);
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
  constexpr double kCalls = 4, kShareOfPeak = 0.35, kBytesPerUs = 8e3, kFixedUs = 150;
  const double peak = peak_fp32_gflops(plan.device);
  const double flop_per_us = 1e3 * kShareOfPeak * (std::isfinite(peak) ? peak : 100.0);
  const GemmProblem& p = plan.problems[problem];
  const double call_us = std::max(flop_count(p) / flop_per_us, least_bytes(p) / kBytesPerUs);
  return static_cast<double>(plan.candidates[problem].size()) * (kFixedUs + kCalls * call_us) / 1e6;
}

std::vector<std::uint32_t> measuring_order(const SweepPlan& plan, int shard, int shards) {
  std::vector<std::uint32_t> mine;
  const auto order = seeded_order(plan.problems.size(), plan.seed);
  for (auto i = static_cast<std::size_t>(shard - 1); i < order.size(); i += static_cast<std::size_t>(shards))
    mine.push_back(order[i]);
  return mine;
}

}  // namespace kscout
