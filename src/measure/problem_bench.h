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
#include "measure/samples.h"
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
};

class ProblemBench {
 public:
  /// `device`: the instruments of the candidates' backends, which share them.
  ProblemBench(const Protocol& protocol, std::uint64_t seed, Instruments& device = host_instruments())
      : device_(device), protocol_(protocol), seed_(seed), operands_(device), workspace_(3, device) {}

  /// Throws as GemmOperands::make.
  void open(const Problem& problem);
  /// Pass 1: one verified call and one sample; `pruned_early` when that is hopeless beside `best_us`. With
  /// Protocol::repeat, so many samples. Never throws for what the candidate does: the outcome says it.
  Outcome coarse(const Candidate& candidate, double best_us);
  /// Pass 2: a few screening samples of everybody, apart in time; then rounds over as many of the fastest as
  /// the budget pays (measure/samples.h). Who is not in the rounds is `pruned_early`, with the median of the
  /// screening samples. Calls `answer` once per candidate, in order.
  void contenders(std::span<const Candidate> candidates,
                  const std::function<void(std::size_t, const Outcome&)>& answer);

  const TimeSpent& spent() const noexcept { return spent_; }

 private:
  struct Contender;

  /// Mean microseconds of so many calls.
  double timed_us(Launch& launch, int calls);
  /// Microseconds per call of a batch, or of one call when caches are flushed.
  double sample_us(Launch& launch, double expected_us);
  void record(const SampleSummary& summary, Measurement& m) const;
  std::string damage() const;
  void repair();
  /// False when the outcome is already known: wrong, crashed.
  bool verify(Launch& launch, Outcome& outcome, double& first_us);
  void time_coarsely(Launch& launch, double first_us, double best_us, Outcome& outcome);
  std::vector<Contender> prepare_contenders(std::span<const Candidate> candidates);
  /// One more sample, in microseconds. What goes wrong becomes the contender's outcome.
  std::optional<double> take_sample(Contender& one);
  /// Whether its last call left the guards alone; if not, that becomes its outcome.
  bool guards_intact(Contender& one);
  /// Takes screening samples of all, apart in time; returns who may still be the fastest, by their fastest
  /// sample.
  std::vector<std::size_t> screen(std::span<Contender> all);
  /// Cuts `left` to those whom the budget pays all rounds; fewer rounds where even the least of them cost
  /// more.
  RoundsRule fit_to_budget(std::span<const Contender> all, std::vector<std::size_t>& left) const;

  Instruments& device_;
  Protocol protocol_;
  std::uint64_t seed_;
  Problem problem_;
  GemmOperands operands_;
  std::unique_ptr<Reference> reference_;
  GuardedBuffer workspace_;
  std::uint32_t seed_of_orders_ = 1;
  bool slowed_ = false;  ///< the device said so during the samples
  TimeSpent spent_;
};

}  // namespace kscout
