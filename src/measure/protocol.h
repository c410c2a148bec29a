#pragma once
/// \file
/// How configs are timed: the numbers behind docs/measuring.md.
#include <cstdint>

#include <kscout/fields.h>
#include <kscout/measurement.h>

namespace kscout {

/// How each (problem, config) is timed. Part of the sweep's identity: one folder holds one protocol.
struct Protocol {
  CacheState cache = CacheState::warm;
  std::int32_t warmup = 1;         ///< calls before the first timed one, besides the verified call
  std::int32_t repeat = 0;         ///< > 0: exactly this many samples each, no races, no contenders
  double patience = 8;             ///< waits for a steady machine, at most this times the time of the calls
  double coarse_target = 0.05;     ///< pass 1: relative half width of the median's confidence interval
  double coarse_budget_us = 3e4;   ///< pass 1: time for the samples of one config
  double hopeless = 2;             ///< pass 1: first run slower than this times the best: raced out
  double race = 1.5;               ///< pass 1: both of two samples slower than this times the best: raced out
  double contender = 2;            ///< pass 2 takes configs up to this times the best
  std::int32_t contenders = 48;    ///< and at most so many
  double tight_target = 0.01;      ///< pass 2: relative half width
  double tight_budget_us = 2.5e5;  ///< pass 2: time for the samples of one problem
  bool operator==(const Protocol&) const = default;
};

template <>
struct Fields<Protocol> {
  using T = Protocol;
  static constexpr auto list = std::tuple{
      Field{"cache", &T::cache, "1", "cache state before each run"},
      Field{"warmup", &T::warmup, "calls", "untimed calls before the samples"},
      Field{"repeat", &T::repeat, "samples", "fixed number of samples; 0 = adaptive"},
      Field{"patience", &T::patience, "1", "longest waits for a steady machine over the time of the calls"},
      Field{"coarse_target", &T::coarse_target, "1", "pass 1: half width of the interval over the median"},
      Field{"coarse_budget_us", &T::coarse_budget_us, "us", "pass 1: time for one config"},
      Field{"hopeless", &T::hopeless, "1", "pass 1: raced out after one run slower than this times the best"},
      Field{"race", &T::race, "1", "pass 1: raced out after two samples slower than this times the best"},
      Field{"contender", &T::contender, "1", "pass 2: configs up to this times the best"},
      Field{"contenders", &T::contenders, "configs", "pass 2: at most so many"},
      Field{"tight_target", &T::tight_target, "1", "pass 2: half width of the interval over the median"},
      Field{"tight_budget_us", &T::tight_budget_us, "us", "pass 2: time for one problem"},
  };
};

}  // namespace kscout
