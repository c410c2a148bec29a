#pragma once
/// \file
/// Says in which order a measuring search begins, and how many configs it times unless it is told.
///
///     const SearchStart start = start_by_model(model, problem, space.configs());
///     search_by_measuring(space, timer, {.start = start, .evaluations = start.evaluations});
#include <cstddef>
#include <cstdint>
#include <vector>

#include <kscout/any_problem.h>
#include <kscout/config.h>
#include <kscout/device.h>

#include "select/model.h"

namespace kscout {

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

}  // namespace kscout
