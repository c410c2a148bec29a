#pragma once
/// \file
/// Measures configs on one problem at a time: what a worker does.
///
///     ProblemBench bench(backend("cpu"), protocol, seed);
///     bench.open(problem);                                  // operands and reference, once per problem
///     Outcome first = bench.coarse(config, infinity);       // verified and timed
///     bench.contenders(best_configs, [](std::size_t i, const Outcome& outcome) {...});
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <kscout/backend.h>
#include <kscout/measurement.h>

#include "measure/operands.h"
#include "measure/steadiness.h"
#include "measure/stopping.h"
#include "measure/verify.h"
#include "sweep/plan.h"

namespace kscout {

struct Outcome {
  Measurement measured = {};
  std::string reason = {};  ///< why it is not ok; empty when it is
};

/// Where a worker's time went, in nanoseconds.
struct TimeSpent {
  std::int64_t kernels = 0;   ///< calls of kernels: verified, warm-up and timed
  std::int64_t flushes = 0;   ///< cold protocol
  std::int64_t verify = 0;    ///< references, poison, checks
  std::int64_t operands = 0;  ///< filling A, B (and C)
  std::int64_t waits = 0;     ///< for the machine to be steady: probes and samples thrown away
};

class ProblemBench {
 public:
  ProblemBench(Backend& backend, const Protocol& protocol, std::uint64_t seed)
      : backend_(backend), protocol_(protocol), seed_(seed) {}

  /// Throws as GemmOperands::make.
  void open(const GemmProblem& problem);
  /// Pass 1: one verified call, then samples until the median is known coarsely, or until the config cannot
  /// beat `best_us` any more. Never throws for what the config does: the outcome says it.
  Outcome coarse(const KernelConfig& config, double best_us);
  /// Pass 2: rounds over all configs, one sample each, until every median is tight or the budget ends; who
  /// falls behind is out early (`raced`).
  /// Calls `answer` once per config, in order.
  void contenders(std::span<const KernelConfig> configs,
                  const std::function<void(std::size_t, const Outcome&)>& answer);

  const TimeSpent& spent() const noexcept { return spent_; }

 private:
  struct Contender;

  /// Books calls that took so long.
  void called(std::int64_t took_ns) noexcept;
  double call_us(Launch& launch);
  /// A batch of calls long enough for the clock, or one call when caches are flushed.
  struct Batch {
    double call_us = 0;  ///< mean
    double all_us = 0;
  };
  Batch run_batch(Launch& launch, double expected_us);
  /// Probes until one is steady; false when patience_ns_ ends first.
  bool wait_until_steady(Launch& launch);
  /// A batch between two steady probes. When the machine gives no such moment before patience_ns_ ends, the
  /// fastest batch, and `disturbed` is set.
  Batch sample(Launch& launch, double expected_us, bool& disturbed);
  std::string damage() const;
  void repair();
  /// False when the outcome is already known: wrong, crashed.
  bool verify(Launch& launch, Outcome& outcome, double& first_us);
  std::vector<Contender> prepare_contenders(std::span<const KernelConfig> configs);
  /// One more sample; microseconds of it. What goes wrong becomes the contender's outcome.
  double sample_contender(Contender& one);
  void time_coarsely(Launch& launch, double first_us, double best_us, Outcome& outcome);

  Backend& backend_;
  Protocol protocol_;
  std::uint64_t seed_;
  GemmProblem problem_;
  GemmOperands operands_;
  std::unique_ptr<GemmReference> reference_;
  GuardedBuffer workspace_{3};
  Steadiness steadiness_;
  std::int64_t patience_ns_ = 0;  ///< what may still be spent on waiting for a steady machine
  TimeSpent spent_;
};

}  // namespace kscout
