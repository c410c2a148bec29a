#pragma once
/// \file
/// Computes the baselines of a selector: one fixed config, a few fixed configs, a random choice, an analytic
/// formula.
///
///     // fixed configs from `training` only
///     const auto lines = baselines(test, measured_pool, training);
///
/// Each baseline is evaluated on the same problems and by the same rules as a model.
#include <cstddef>
#include <optional>
#include <unordered_map>
#include <vector>

#include "dataset/compact_table.h"
#include "evaluate/evaluate.h"

namespace kscout {

// ---- Chooses configs once for all problems of a table: the best config, the best few, the fewest with a
// given efficiency.
//
//     const KernelConfig one = best_static(training);
//     const PrunedConfigs few = prune(pilot, {.keep = 0.99});     // what a small build has to hold

/// The config with the highest mean efficiency over the table's problems; unmeasured and failed count as 0.
KernelConfig best_static(const CompactTable& training);
/// Chooses `count` configs greedily. Each next config is the one that raises the mean efficiency most, where
/// a problem counts with the best config chosen so far.
std::vector<KernelConfig> best_statics(const CompactTable& training, std::size_t count);

struct PruneRequest {
  double keep = 0.99;    ///< lower limit of the mean share of the best speed, over problems and over calls
  double keep_each = 0;  ///< lower limit of the share of the best speed on every single problem
  std::vector<KernelConfig> given = {};  ///< configs that are kept anyway
};

struct PrunedConfigs {
  std::vector<KernelConfig> configs;  ///< configs besides the given ones, in the order of the table
  /// Shares of the best speed that these and the given configs keep: mean over problems, mean over calls,
  /// worst problem.
  double mean = 0, mean_of_calls = 0, least = 0;
  std::size_t problems = 0;    ///< with a usable row; others are left out
  std::size_t candidates = 0;  ///< configs of the table
};
/// Chooses a small set of configs that keeps the requested shares on the problems of the table. Greedy set
/// cover (at most 1 + ln(problems) times the minimum number); then removes every config that the others make
/// superfluous. Throws invalid_argument: no problem with a usable row, shares outside [0, 1]. Cost: problems
/// x configs x configs kept.
PrunedConfigs prune(const CompactTable& table, const PruneRequest& request);

struct Baseline {
  std::string name;
  std::string note;  ///< the choice, e.g. the config's name
  Summary summary;
  /// Efficiency on each problem that the baseline has a choice for.
  std::unordered_map<Problem, double> efficiency = {};
};

/// The library's first suggestion, and the fastest of its first eight, on the problems that have a row of it,
/// where configs have an axis `suggestion`; best static; best k static (the best of the k on each problem; k
/// = 3 and 8); random (exact expected value); analytic model; oracle. The fixed configs are chosen on
/// `training`. Without it, they are chosen on the other four of five folds of the table itself, with equal
/// sizes in one fold, so that no problem affects its own choice. `analytic` may be empty.
std::vector<Baseline> baselines(const CompactTable& table, const PoolOf& pool,
                                const std::optional<CompactTable>& training, const Scorer& analytic);

/// The choices of the best static config, as in baselines().
Evaluation evaluate_best_static(const CompactTable& table, const std::optional<CompactTable>& training);

/// The part of a table whose problems have a row of the library's first suggestion; no rows when the configs
/// have no axis `suggestion`.
CompactTable with_first_suggestion(const CompactTable& table);
/// The library's first suggestion on the problems of with_first_suggestion(), which must have rows.
Evaluation first_suggestion(const CompactTable& with_rows);

/// Scores the configs of a table by minus the analytic time (features/schema.h). Empty where the analytic
/// time does not describe these kernels: for convolutions, its formula reads axes of a provider.
Scorer analytic_scorer(const CompactTable& table);

}  // namespace kscout
