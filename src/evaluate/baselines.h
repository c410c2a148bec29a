#pragma once
/// \file
/// Computes what a selector must beat: one fixed config, a few fixed ones, chance, a formula.
///
///     // fixed configs from `training` only
///     const auto lines = baselines(test, measured_pool(test), training);
///
/// Each is evaluated on the same problems and by the same rules as a model.
#include <cstddef>
#include <optional>
#include <vector>

#include <kscout/measurement.h>

#include "evaluate/evaluate.h"

namespace kscout {

// ---- Configs chosen once for all problems of a table: the best one, the best few, the fewest that lose
// little.
//
//     const KernelConfig one = best_static(training);
//     const PrunedConfigs few = prune(pilot, {.keep = 0.99});     // what a small build has to hold

/// The config with the highest mean efficiency over the table's problems; unmeasured and failed count as 0.
KernelConfig best_static(const MeasurementTable& training);
/// `count` configs, added one by one where each raises the mean of the best among them most (greedy).
std::vector<KernelConfig> best_statics(const MeasurementTable& training, std::size_t count);

struct PruneRequest {
  double keep = 0.99;    ///< least mean share of the best speed: over problems, and over their calls
  double keep_each = 0;  ///< least share of the best speed on every single problem
  std::vector<KernelConfig> given = {};  ///< there anyway: what they reach need not be reached again
};

struct PrunedConfigs {
  std::vector<KernelConfig> configs;  ///< beside those given, in the order of the table
  /// What they and those given keep: mean over problems, mean over calls, worst problem.
  double mean = 0, mean_of_calls = 0, least = 0;
  std::size_t problems = 0;    ///< with a usable row; others say nothing
  std::size_t candidates = 0;  ///< configs of the table
};
/// A small set of configs that keeps what is asked, on the problems of the table: greedy set cover (at most
/// 1 + ln(problems) times the least number), then every config whose work the others do is taken out again.
/// Throws invalid_argument: no problem with a usable row, shares outside [0, 1].
/// Cost: problems x configs x configs kept.
PrunedConfigs prune(const MeasurementTable& table, const PruneRequest& request);

struct Baseline {
  std::string name;
  std::string note;  ///< how it was chosen, e.g. the config's name
  Summary summary;
};

/// Best static, best k static (the best of the k on each problem; k = 3 and 8), random (expected value,
/// exact), analytic model, oracle. With `training` the fixed configs are chosen on it; without, on the other
/// four of five folds of the table itself, sizes kept together, so that no problem helps to choose its own.
/// `analytic` may be empty.
std::vector<Baseline> baselines(const MeasurementTable& table, const PoolOf& pool,
                                const std::optional<MeasurementTable>& training, const Scorer& analytic);

/// Score = minus the analytic time (features/schema.h), for configs of any provider.
Scorer analytic_scorer(const Device& device);

}  // namespace kscout
