#pragma once
/// \file
/// Measures candidates on one problem at a time: what a sweep's worker does, and an exhaustive search.
///
///     ProblemBench bench(protocol, seed);
///     bench.open(problem);                                  // operands and reference, once per problem
///     Outcome first = bench.coarse({&backend, config}, infinity);   // verified and timed
///     bench.contenders(best_ones, [](std::size_t i, const Outcome& outcome) {...});
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <kscout/backend.h>
#include <kscout/measurement.h>

#include "measure/operands.h"
#include "measure/protocol.h"
#include "measure/steady_samples.h"
#include "measure/verify.h"

namespace kscout {

/// What can be measured: a config on a backend.
struct Candidate {
  Backend* backend;
  KernelConfig config;
};

struct Outcome {
  Measurement measured = {};
  std::string reason = {};  ///< why it is not ok; empty when it is
};

/// Where the time went, in nanoseconds.
struct TimeSpent {
  std::int64_t kernels = 0;   ///< calls of kernels: verified, warm-up and timed
  std::int64_t flushes = 0;   ///< cold protocol
  std::int64_t verify = 0;    ///< references, poison, checks
  std::int64_t operands = 0;  ///< filling A, B (and C)
  std::int64_t waits = 0;     ///< for the machine to be steady: probes and samples thrown away
};

class ProblemBench {
 public:
  /// `device`: the instruments of the candidates' backends, which share them.
  ProblemBench(const Protocol& protocol, std::uint64_t seed, Instruments& device = host_instruments())
      : device_(device),
        protocol_(protocol),
        seed_(seed),
        operands_(device),
        workspace_(3, device),
        steady_(protocol.patience) {}

  /// Throws as GemmOperands::make.
  void open(const GemmProblem& problem);
  /// Pass 1: one verified call, then samples until the median is known coarsely, or until the config cannot
  /// beat `best_us` any more. Never throws for what the candidate does: the outcome says it.
  Outcome coarse(const Candidate& candidate, double best_us);
  /// Pass 2: rounds over all candidates, one sample each, until every median is tight or the budget ends; who
  /// falls behind is out early (`raced`).
  /// Calls `answer` once per candidate, in order.
  void contenders(std::span<const Candidate> candidates,
                  const std::function<void(std::size_t, const Outcome&)>& answer);

  TimeSpent spent() const noexcept;

 private:
  struct Contender;

  double call_us(Launch& launch);
  /// A batch of calls long enough for the clock, or one call when caches are flushed.
  TimedCalls run_batch(Launch& launch, double expected_us);
  /// A batch at a steady moment.
  TimedCalls sample(Launch& launch, double expected_us, bool& disturbed);
  std::string damage() const;
  void repair();
  /// False when the outcome is already known: wrong, crashed.
  bool verify(Launch& launch, Outcome& outcome, double& first_us);
  std::vector<Contender> prepare_contenders(std::span<const Candidate> candidates);
  /// One more sample. What goes wrong becomes the contender's outcome.
  std::optional<TimedCalls> sample_contender(Contender& one);
  void time_coarsely(Launch& launch, double first_us, double best_us, Outcome& outcome);

  Instruments& device_;
  Protocol protocol_;
  std::uint64_t seed_;
  GemmProblem problem_;
  GemmOperands operands_;
  std::unique_ptr<GemmReference> reference_;
  GuardedBuffer workspace_;
  SteadySamples steady_;
  TimeSpent spent_;  ///< without calls and waits, which steady_ counts
};

}  // namespace kscout
