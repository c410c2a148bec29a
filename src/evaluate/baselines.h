#pragma once
/// \file
/// What a selector must beat: one fixed config, a few fixed ones, chance, a formula.
///
///     // fixed configs from `training` only
///     const auto lines = baselines(test, measured_pool(test), training);
///
/// Each is judged on the same problems and by the same rules as a model.
#include <optional>

#include "evaluate/evaluate.h"

namespace kscout {

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
