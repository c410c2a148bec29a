#pragma once
/// \file
/// When to stop repeating a measurement. No clock in here: samples go in, a verdict comes out.
///
///     Sampler sampler({.target = 0.02, .budget_us = 5000});
///     do { sampler.add(time_one_batch_us(), spent_us); } while (sampler.verdict() == Verdict::go_on);
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "measure/samples.h"

namespace kscout {

struct StoppingRule {
  std::size_t fixed = 0;   ///< > 0: exactly this many samples, nothing else counts
  std::size_t least = 3;   ///< samples before anything is believed, unless the budget ends first
  std::size_t most = 15;   ///< samples after which the median is taken as it is
  double target = 0.05;    ///< relative half width of the median's interval that is tight enough
  double budget_us = 2e4;  ///< time spent on samples after which no further one starts
  double best_us = std::numeric_limits<double>::infinity();   ///< fastest rival so far
  double hopeless = std::numeric_limits<double>::infinity();  ///< give up when the first sample exceeds this
                                                              ///< times the rival
  double race = std::numeric_limits<double>::infinity();  ///< give up when two samples' minimum exceeds this
                                                          ///< times the rival
};

enum class Verdict : std::uint8_t {
  go_on,
  tight,  ///< the median is known as well as asked
  spent,  ///< budget or most samples reached with a wider interval: a noisy measurement
  raced,  ///< cannot win any more
};

class Sampler {
 public:
  explicit Sampler(const StoppingRule& rule) : rule_(rule) {}

  /// A call outside the samples (a warm-up) was that fast: a config that was fast once is not raced out.
  void seen(double call_us) { fastest_us_ = std::min(fastest_us_, call_us); }
  /// One sample and the time it took to get it (its batch of calls).
  void add(double sample_us, double spent_us);
  /// Of the samples so far; go_on before the first.
  Verdict verdict() const;
  SampleSummary summary() const { return summarise(samples_); }
  std::size_t count() const noexcept { return samples_.size(); }
  double fastest() const noexcept { return fastest_us_; }  ///< infinite before the first sample

 private:
  StoppingRule rule_;
  std::vector<double> samples_;
  double spent_us_ = 0;
  double fastest_us_ = std::numeric_limits<double>::infinity();
};

}  // namespace kscout
