#pragma once
/// \file
/// Times configs on a GPU side by side, compares their times, and times decisions.
///
///     GpuMatch match;
///     match.open(problem);
///     const std::size_t best = fastest_of(match.time(candidates));
///     const std::vector<Timed> timed = match.time({ours, first, candidates[best]}, 3);
///
/// Caches are cold, samples are interleaved, and only kernel time counts.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <kscout/selector.h>

#include "measure/problem_bench.h"

namespace kscout::bench {

struct Timed {
  double us = std::numeric_limits<double>::quiet_NaN();
  bool noisy = true;  ///< the median's 95 % interval is wider than 5 % to either side
};

/// Position of the shortest time; NaN counts as the longest. `timed` must not be empty.
std::size_t fastest_of(std::span<const Timed> timed);

/// For selectors of the GPU's backend: choices are among the kernels that it has.
SelectorRequest cuda_request(std::string_view provider);

/// cuBLASLt's suggestion at a place, from 1.
KernelConfig library_suggestion(int place);

class GpuMatch {
 public:
  GpuMatch();

  /// Throws the errors of GemmOperands::make.
  void open(const Problem& problem);
  /// Verifies the configs, which also loads them, and times them: the median of `runs` medians. NaN for a
  /// config that is refused or wrong (last_failures). A config that is listed twice is timed once.
  std::vector<Timed> time(const std::vector<KernelConfig>& configs, int runs = 1);
  /// The `count` fastest of many configs, by a single sample of each; refused and wrong ones are left out.
  std::vector<KernelConfig> shortlist(std::span<const KernelConfig> configs, std::size_t count);
  /// The reasons of the last time(), one per config; empty for a config that was timed.
  const std::vector<std::string>& last_failures() const noexcept { return failures_; }

 private:
  std::vector<Timed> time_each(const std::vector<KernelConfig>& configs, int runs);

  ProblemBench bench_;
  std::vector<std::string> failures_;
};

/// Our speed divided by a peer's, over many problems.
struct Summary {
  std::size_t problems = 0;
  double geomean = 1, p10 = 1, least = 1;
  std::size_t wins = 0, losses = 0;  ///< by more than 3 %, with both times known to 5 %
};
/// Pairs of our time and a peer's; pairs without both are left out.
Summary compare(std::span<const std::pair<Timed, Timed>> pairs);

template <class Work>
double microseconds(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
}

/// Durations of one kind of decision.
struct Times {
  const char* who;
  std::vector<double> us;

  double at(double share) const;
  /// Sorts, and prints a line: who, median, 99th percentile, longest.
  void print();
};

}  // namespace kscout::bench
