#pragma once
/// \file
/// Compares the choices of two selectors on the same problems: agreement, gains, losses, and acceptance of
/// the second as a replacement of the first.
///
///     const auto before = read_picks("old.csv"), after = evaluated_picks(evaluation);
///     const PickComparison c = compare_picks(before, after, {});
///     all_met(c.criteria);
#include <filesystem>
#include <string>
#include <vector>

#include "evaluate/evaluate.h"

namespace kscout {

/// The choice for a problem, and its efficiency.
struct EvaluatedPick {
  std::string problem;    ///< equal texts mean the same problem
  std::string config;     ///< the kernel's name
  double efficiency = 0;  ///< fraction of the oracle's speed
};

std::vector<EvaluatedPick> evaluated_picks(const Evaluation& evaluation);

/// Reads the first choices of a file: per-problem tables and predictions of `evaluate` and `validate`, or
/// per-problem tables in the public CK Tile tools' columns. Efficiencies are in percent; a table of an
/// earlier version holds fractions: it lacks the columns `pick_coarse` and `coarse`, and no value is above 1.
/// Throws not_found, corrupt_data.
std::vector<EvaluatedPick> read_picks(const std::filesystem::path& file);

/// Limits on the losses of a new model, with the public tools' numbers. Those tools write "%" without a base.
/// Here mean, median and single problems are in percentage points of efficiency; P10 is relative to the old
/// P10.
struct AcceptanceLimits {
  double mean_points = 0.5, median_points = 0.5;
  double p10_percent = 2;
  double drop_points = 10;    ///< max loss of any problem
  double same_points = 0.01;  ///< smaller changes of a problem do not count
  bool both_ways = false;     ///< limits gains of mean, median and P10, too, as the public tools do
};

struct PickComparison {
  std::size_t problems = 0, only_old = 0, only_new = 0;  ///< in both lists; in one list only (left out)
  std::size_t agreeing = 0;                              ///< problems with the same config
  std::size_t improved = 0, same = 0, degraded = 0;
  struct Statistic {
    double before = 0, after = 0;  ///< fractions
    double points() const noexcept { return 100 * (after - before); }
  };
  Statistic mean, median, p10;
  std::string worst_problem;  ///< the problem with the largest loss; empty when none lost
  double worst_points = 0;    ///< change of worst_problem, at most 0
  std::vector<Criterion> criteria;
};

/// Throws invalid_argument for a problem twice in one list, or no problem in both.
PickComparison compare_picks(const std::vector<EvaluatedPick>& before,
                             const std::vector<EvaluatedPick>& after, const AcceptanceLimits& limits);

}  // namespace kscout
