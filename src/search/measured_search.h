#pragma once
/// \file
/// Finds the fastest config of one problem by timing few.
///
///     const SearchSpace space(configs_that_apply);
///     const SearchStart start = start_by_cost(problem, space.configs(), device);
///     const MeasuredSearchResult found =
///         search_by_measuring(space, timer, {.start = start, .evaluations = start.evaluations});
///     space.configs()[found.best.front().config];
///
/// What is timed is the timer's business: a worker process (sweep/isolated_timer.h), a table of measurements
/// in a replay, a function in a test. The search draws no random numbers: equal times give equal results.
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

// ---- Says in which order a measuring search begins, and how many configs it times unless it is told.
//
//     const SearchStart start = start_by_model(model, problem, space.configs());
//     search_by_measuring(space, timer, {.start = start, .evaluations = start.evaluations});

struct SearchStart {
  /// Microseconds that each config should take; NaN where unknown. Empty: nothing is known.
  std::vector<double> expected_us = {};
  /// Configs that are timed before all others: a vendor's own suggestions, whose axes say nothing.
  std::vector<std::uint32_t> first = {};
  /// After them, so many configs are timed in the order of expected_us, whatever the times say.
  std::size_t in_order = 0;
  std::size_t evaluations = 0;  ///< configs that a search times unless it is told
};

/// Predicted times, for configs outside the model's family too, but not for a vendor's suggestions, which run
/// another algorithm on every problem. Begins with the vendor's first suggestion, if
/// the configs hold it, and keeps half of the evaluations for the model's order. Evaluations: 5 % of the
/// configs, at least 16.
SearchStart start_by_model(const Model& model, ProblemRef problem, const ConfigTable& configs);

/// Analytic costs where they describe the configs. Begins with all of the vendor's suggestions. Evaluations:
/// 5 % of the configs, at least 24.
SearchStart start_by_cost(ProblemRef problem, const ConfigTable& configs, const Device& device);

/// The time by which the fastest is chosen. NaN for a config that cannot be used.
struct Retimed {
  double time_us;
  bool in_rounds;  ///< from interleaved rounds; false: the config was given up as too slow before them
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
  std::size_t evaluations = 24;  ///< configs that may be timed; those that cannot be used count
  std::size_t top = 5;           ///< configs in the result
  /// Asked before each config but the first: true ends the timing.
  std::function<bool()> stop = {};
};

struct TimedConfig {
  std::uint32_t config;
  double time_us;
  std::size_t evaluation;  ///< the config was the n-th that was timed, from 1
  bool in_rounds;          ///< time_us comes from the interleaved rounds
};

struct MeasuredSearchResult {
  /// By their times in rounds, then the others by their coarse times. Usable configs only.
  std::vector<TimedConfig> best;
  std::size_t timed = 0;   ///< configs that were tried
  std::size_t failed = 0;  ///< of them: cannot be used
};

/// Times what SearchStart says, then the config that promises most by TimeSurrogate, one after the other;
/// then times the fastest ones again, interleaved. Throws what the timer throws, and invalid_argument for a
/// start that does not fit the space.
MeasuredSearchResult search_by_measuring(const SearchSpace& space, ConfigTimer& timer,
                                         const MeasuredSearchRequest& request);

}  // namespace kscout
