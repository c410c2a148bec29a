#pragma once
/// \file
/// Finds the fastest config of one problem by timing a few configs.
///
///     const SearchSpace space(configs_that_apply);
///     const SearchStart start = start_by_cost(problem, space.configs(), device);
///     const MeasuredSearchResult found =
///         search_by_measuring(space, timer, {.start = start, .evaluations = start.evaluations});
///     space.configs()[found.best.front().config];
///
/// A ConfigTimer supplies the times: a worker process (sweep/isolated_timer.h), a table of measurements in a
/// replay, or a function in a test. The search draws no random numbers: equal times give equal results.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <kscout/any_problem.h>
#include <kscout/config.h>
#include <kscout/device.h>

#include "search/space.h"
#include "select/model.h"

namespace kscout {

// ---- Chooses the order in which a measuring search begins, and its default number of configs to time.
//
//     const SearchStart start = start_by_model(model, problem, space.configs());
//     search_by_measuring(space, timer, {.start = start, .evaluations = start.evaluations});

struct SearchStart {
  /// Expected microseconds of each config; NaN where unknown. Empty: unknown for all configs.
  std::vector<double> expected_us = {};
  /// Configs that are timed before all others: a vendor's own suggestions, whose axis values do not describe
  /// their speed.
  std::vector<std::uint32_t> first = {};
  /// Number of configs that are timed next, in the order of expected_us, whatever times were measured so far.
  std::size_t in_order = 0;
  std::size_t evaluations = 0;  ///< default number of configs that a search times
};

/// Expects the model's predicted times, also for configs outside the model's family, but not for a vendor's
/// suggestions: the same suggestion number runs a different algorithm on each problem. Begins with the
/// vendor's first suggestion, if the configs contain it. Keeps half of the evaluations for the model's order.
/// Evaluations: 5 % of the configs, at least 16.
SearchStart start_by_model(const Model& model, ProblemRef problem, const ConfigTable& configs);

/// Expects the analytic costs of the configs that have one. Begins with all of the vendor's suggestions.
/// Evaluations: 5 % of the configs, at least 24.
SearchStart start_by_cost(ProblemRef problem, const ConfigTable& configs, const Device& device);

/// The time that decides which config is the fastest. NaN for a config that cannot be used.
struct Retimed {
  double time_us;
  bool in_rounds;  ///< from interleaved rounds; false: the config was dropped as too slow before them
};

/// Times configs, by their positions in the space.
class ConfigTimer {
 public:
  virtual ~ConfigTimer() = default;
  /// One coarse time in microseconds; NaN for a config that cannot be used.
  virtual double time_us(std::uint32_t config) = 0;
  /// Several samples of each config, interleaved.
  virtual std::vector<Retimed> retime(std::span<const std::uint32_t> configs) = 0;
};

struct MeasuredSearchRequest {
  SearchStart start = {};
  std::size_t evaluations = 24;  ///< configs that may be timed, unusable ones included
  std::size_t top = 5;           ///< configs in the result
  /// Called before each config but the first; the search stops timing when it returns true.
  std::function<bool()> stop = {};
};

struct TimedConfig {
  std::uint32_t config;
  double time_us;
  std::size_t evaluation;  ///< position in the order of timing, from 1
  bool in_rounds;          ///< time_us comes from the interleaved rounds
};

struct MeasuredSearchResult {
  /// Configs with times from rounds first, fastest first; then the others by their coarse times. Usable
  /// configs only.
  std::vector<TimedConfig> best;
  std::size_t timed = 0;   ///< configs that were timed, failed ones included
  std::size_t failed = 0;  ///< of the timed configs: cannot be used
};

/// Times the configs of SearchStart, then repeatedly the config with the lowest optimistic time of
/// TimeSurrogate. Then times the fastest configs again, interleaved. Throws what the timer throws, and
/// invalid_argument for a start that does not fit the space.
MeasuredSearchResult search_by_measuring(const SearchSpace& space, ConfigTimer& timer,
                                         const MeasuredSearchRequest& request);

}  // namespace kscout
