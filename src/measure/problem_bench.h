#pragma once
/// \file
/// Measures candidates on one problem at a time, for a sweep's worker and for an exhaustive search.
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

#include "measure/kernel_probe.h"
#include "measure/protocol.h"
#include "measure/samples.h"
#include "op/operands.h"
#include "op/reference.h"

namespace kscout {

/// A config on a backend, the unit of measurement.
struct Candidate {
  Backend* backend;
  KernelConfig config;
};

struct Outcome {
  Measurement measured = {};
  std::string reason = {};  ///< why the status is not ok; empty when it is
};

/// Where the time went, in nanoseconds.
struct TimeSpent {
  std::int64_t kernels = 0;   ///< kernel calls: verified, warm-up and timed
  std::int64_t flushes = 0;   ///< cache flushes of the cold protocol
  std::int64_t verify = 0;    ///< references, poisoning, checks
  std::int64_t operands = 0;  ///< filling A, B (and C)
};

class ProblemBench {
 public:
  /// `device`: the instruments that the candidates' backends share. `probes`: each kernel of a library is
  /// probed (measure/kernel_probe.h) in its first coarse(); only in a process that a kernel may crash.
  ProblemBench(const Protocol& protocol, std::uint64_t seed, Instruments& device = host_instruments(),
               bool probes = false)
      : device_(device),
        protocol_(protocol),
        seed_(seed),
        operands_(device),
        workspace_(3, device),
        packed_(4, device) {
    if (probes) probe_.emplace(device);
  }

  /// Throws the errors of GemmOperands::make.
  void open(const Problem& problem);
  /// The same for candidates whose backend holds the operands (MeasuredBackend::open_problem) and checks
  /// results with this reference.
  void open(const Problem& problem, std::unique_ptr<Reference> reference);
  /// Pass 1: one verified call and one sample; `pruned_early` when the sample exceeds the prune limit for
  /// `best_us`. Where calls are dear, also when a part of the problem shows that it would: then nothing is
  /// verified, and the time is that of the part, extrapolated. With Protocol::repeat, that many samples.
  /// Never throws for a failure of the candidate: the outcome reports it.
  Outcome coarse(const Candidate& candidate, double best_us);
  /// Pass 2: a few screening samples of every candidate, spread over time; then rounds over as many of the
  /// fastest as the budget allows (measure/samples.h). A candidate outside the rounds is `pruned_early`, with
  /// the median of its screening samples. Calls `answer` once per candidate, in order.
  void contenders(std::span<const Candidate> candidates,
                  const std::function<void(std::size_t, const Outcome&)>& answer);

  const TimeSpent& spent() const noexcept { return spent_; }

 private:
  struct Contender;

  /// Packs the launch's filter, unless it is the last one that was packed: all launches share the memory.
  /// Returns the microseconds; nothing when nothing was packed.
  std::optional<double> pack(Launch& launch);
  /// The median time of packing the launch's filter a few times, or what the launch took to build; NaN for a
  /// launch without either.
  double setup_us(Launch& launch);
  /// Mean microseconds of this many calls.
  double timed_us(Launch& launch, int calls);
  /// Microseconds per call of a batch, or of one call when caches are flushed.
  double sample_us(Launch& launch, double expected_us);
  void forget_fastest() {
    fastest_.reset();
    fastest_us_ = std::numeric_limits<double>::infinity();
  }
  void record(const SampleSummary& summary, Measurement& m) const;
  std::string damage() const { return operands_.damage(workspace_, packed_); }
  void repair();
  /// False when the outcome is already decided: wrong or crashed.
  bool verify(const Candidate& candidate, Launch& launch, Outcome& outcome, double& first_us);
  /// The candidate on a part of the problem; null where it cannot show how fast the candidate is.
  std::unique_ptr<Launch> prepare_part(const Candidate& candidate, const Problem& part);
  /// Whether a call on a part of the problem shows that the candidate cannot contend; if so, `outcome` says
  /// so.
  bool is_hopeless_on_part(const Candidate& candidate, double best_us, Outcome& outcome);
  void time_coarsely(Launch& launch, double first_us, double best_us, Outcome& outcome);
  std::vector<Contender> prepare_contenders(std::span<const Candidate> candidates);
  /// Takes one more sample, in microseconds. A failure becomes the contender's outcome.
  std::optional<double> take_sample(Contender& one);
  /// Whether the contender's last call left the guards intact; if not, the damage becomes its outcome.
  bool guards_intact(Contender& one);
  /// The shortest sample so far of these contenders; infinite without one.
  static double fastest_us(std::span<const Contender> all, std::span<const std::size_t> of);
  /// Takes screening samples of all, spread over time; returns those that may still be the fastest, ordered
  /// by their fastest sample.
  std::vector<std::size_t> screen(std::span<Contender> all);
  /// Reduces `left` to those for which the budget covers all rounds; uses fewer rounds when even the smallest
  /// number of contenders exceeds the budget.
  RoundsRule fit_to_budget(std::span<const Contender> all, std::vector<std::size_t>& left) const;

  Instruments& device_;
  Protocol protocol_;
  std::uint64_t seed_;
  Problem problem_;
  GemmOperands operands_;
  std::unique_ptr<Reference> reference_;
  GuardedBuffer workspace_;
  std::optional<KernelProbe> probe_;
  GuardedBuffer packed_;                ///< the packed filter, of a problem whose filter is packed once
  const Launch* packed_for_ = nullptr;  ///< the launch that packed_ is for
  std::uint32_t seed_of_orders_ = 1;
  std::optional<Candidate> fastest_;  ///< in pass 1 of this problem
  double fastest_us_ = std::numeric_limits<double>::infinity();
  bool slowed_ = false;  ///< the device reported reduced clocks during the samples
  TimeSpent spent_;
};

}  // namespace kscout
