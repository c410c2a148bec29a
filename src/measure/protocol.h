#pragma once
/// \file
/// Defines how configs are timed: the numbers behind docs/measuring.md.
#include <cstdint>

#include <kscout/fields.h>
#include <kscout/measurement.h>

namespace kscout {

/// The settings for timing each (problem, config). They are part of a sweep's identity: one folder has one
/// protocol.
struct Protocol {
  CacheState cache = CacheState::warm;
  std::int32_t warmup = 1;  ///< calls before the first timed one, besides the verified call
  /// > 0: exactly this many samples of each config, no early pruning, no contenders.
  std::int32_t repeat = 0;
  double prune_factor = 6;        ///< pass 1 prunes configs slower than this times the best plus slack_us
  double slack_us = 5000;         ///< cost of a lost time slice; 0 on a GPU's clock
  std::int32_t contenders = 100;  ///< pass 2: maximum number of configs in its rounds; 0 = no pass 2
  std::int32_t rounds = 24;       ///< pass 2: samples of each contender
  /// Pass 2: time for the rounds of one problem; limits the number of contenders.
  double rounds_budget_us = 3e5;
  double noisy_above = 0.05;  ///< a median whose relative half interval is wider than this is noisy
  bool operator==(const Protocol&) const = default;
};

template <>
struct Fields<Protocol> {
  using T = Protocol;
  static constexpr auto list = std::tuple{
      Field{"cache", &T::cache, "1", "cache state before each run"},
      Field{"warmup", &T::warmup, "calls", "untimed calls before the samples"},
      Field{"repeat", &T::repeat, "samples", "fixed number of samples; 0 = adaptive"},
      Field{"hopeless", &T::prune_factor, "1",
            "pass 1: configs slower than this times the best (plus slack_us) are pruned"},
      Field{"slack_us", &T::slack_us, "us", "pass 1: added to that limit, for a lost time slice"},
      Field{"contenders", &T::contenders, "configs", "pass 2: most configs in its rounds"},
      Field{"rounds", &T::rounds, "samples", "pass 2: samples of each contender"},
      Field{"rounds_budget_us", &T::rounds_budget_us, "us", "pass 2: time for the rounds of one problem"},
      Field{"known_to", &T::noisy_above, "1", "a wider half width of the median's interval is noisy"},
  };
};

/// Samples of calls of this length are dear, and other load and lost time slices change them little: fewer
/// are taken.
inline constexpr double kDearUs = 5000;

/// Longest sample of pass 1 that is not pruned; slower configs are pruned.
inline double prune_limit_us(const Protocol& protocol, double best_us) noexcept {
  return protocol.prune_factor * best_us + protocol.slack_us;
}
/// Longest sample of pass 1 of a config that gets a second pass.
inline double contender_limit_us(const Protocol& protocol, double best_us) noexcept {
  constexpr double kFactorOfDear = 1.3;
  return best_us >= kDearUs ? kFactorOfDear * best_us : prune_limit_us(protocol, best_us);
}

}  // namespace kscout
