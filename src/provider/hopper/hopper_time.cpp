#include "provider/hopper/hopper_time.h"

#include <algorithm>
#include <cmath>

#include "op/gemm/gemm_views.h"

namespace kscout {

namespace {

constexpr std::int64_t kTileM = 128, kTileK = 64;
constexpr double kElementBytes = 2;

constexpr double ceil_div(std::int64_t a, std::int64_t b) { return static_cast<double>((a + b - 1) / b); }

/// What warps copy decides about a stage: nothing, B, A, or both.
struct Costs {
  double launch_us;
  double tile, tile_column;                   ///< cycles after the last stage: in all, per column
  double stage, stage_column, loaded_column;  ///< cycles per stage: in all, per column, per column not shared
  double of_bandwidth;                        ///< share of the memory's that cold operands reach
  double cycles_of_byte;                      ///< of a stage, per byte that no stage before it has loaded
  double parts_us, parts_of_bandwidth;        ///< of adding up parts
};
constexpr Costs kAligned = {5.3, 720, 15.6, 480, 1.35, 2.78, 0.64, 0, 0, 0.7};
constexpr Costs kCopiesB = {8, 0, 0, 360, 8.7, 0, 0.33, 0.112, 0.7, 0.78};
constexpr Costs kCopiesA = {10.8, 0, 0, 1360, 1.1, 3.6, 0.485, 0.018, 0, 1};
constexpr Costs kCopiesBoth = {12, 0, 0, 1030, 10.6, 0, 0.3, 0.105, 0, 0.96};

const Costs& costs_of(const GemmProblem& problem) {
  const auto copied = [](const MatrixView& view) { return view.leading % 8 != 0; };
  const bool a = copied(view_a(problem)), b = copied(view_b(problem));
  if (a) return b ? kCopiesBoth : kCopiesA;
  return b ? kCopiesB : kAligned;
}

double time_us(const GemmProblem& p, const HopperConfig& c, const Costs& costs, const Device& device) {
  // The clock under load, and the tensor cores' cycles for 128 rows of a column.
  constexpr double kOfMaxClock = 0.886, kProductColumn = 4;
  const double clusters = static_cast<double>(device.cores / c.cluster);
  const double units =
      ceil_div(p.m, kTileM * c.cluster) * ceil_div(p.n, c.tile_n) * static_cast<double>(c.split_k);
  const double rounds = std::ceil(units / clusters);
  const double stages = std::ceil(ceil_div(p.k, kTileK) / c.split_k);
  const double m = static_cast<double>(p.m), n = static_cast<double>(p.n), k = static_cast<double>(p.k);
  const double operands = kElementBytes * (m * k + k * n), result = kElementBytes * m * n;
  const double stage =
      std::max(kProductColumn * c.tile_n, costs.stage + costs.stage_column * c.tile_n +
                                              costs.loaded_column * c.tile_n / c.cluster +
                                              costs.cycles_of_byte * operands / (units * stages));
  const double cycles = rounds * (stages * stage + costs.tile + costs.tile_column * c.tile_n);
  const double bytes_per_us = device.memory_gb_s * 1e3;
  double us = costs.launch_us + std::max(cycles / (kOfMaxClock * device.max_clock_mhz),
                                         (operands + result) / (costs.of_bandwidth * bytes_per_us));
  if (c.split_k > 1) {
    const double parts = 2 * sizeof(float) * c.split_k * m * n;  // stored and loaded
    us += costs.parts_us + (parts + result) / (costs.parts_of_bandwidth * bytes_per_us);
  }
  return us;
}

}  // namespace

std::vector<HopperTime> hopper_times(const GemmProblem& problem, const Device& device) {
  const Costs& costs = costs_of(problem);
  std::vector<HopperTime> times;
  for (const int tile_n : {128, 192, 256}) {
    for (const int cluster : {1, 2}) {
      for (const int split_k : {1, 2, 4, 8, 16}) {
        const HopperConfig config{tile_n, cluster, split_k};
        times.push_back({config, time_us(problem, config, costs, device)});
      }
    }
  }
  std::ranges::sort(times, {}, &HopperTime::us);
  return times;
}

std::int64_t hopper_workspace_bytes(const GemmProblem& problem, const HopperConfig& config) noexcept {
  constexpr std::int64_t kGrain = 4;  // elements
  if (config.split_k == 1) return 0;
  return config.split_k * problem.m * ((problem.n + kGrain - 1) / kGrain * kGrain) *
         static_cast<std::int64_t>(sizeof(float));
}

}  // namespace kscout
