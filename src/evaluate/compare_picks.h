#pragma once
/// \file
/// Two selectors on the same problems: where they choose alike, where one gained or lost, and whether the
/// second may take the place of the first.
///
///     const auto before = read_picks("old.csv"), after = evaluated_picks(evaluation);
///     const PickComparison c = compare_picks(before, after, {});
///     all_met(c.criteria);
#include <filesystem>
#include <string>
#include <vector>

#include "evaluate/evaluate.h"

namespace kscout {

/// What was chosen for a problem, and what that reached.
struct EvaluatedPick {
  std::string problem;    ///< equal texts are one problem
  std::string config;     ///< the kernel's name
  double efficiency = 0;  ///< fraction of the oracle's speed
};

std::vector<EvaluatedPick> evaluated_picks(const Evaluation& evaluation);

/// The first choices of a file: per-problem tables and predictions of `evaluate` and `validate`, or
/// per-problem tables in the public CK Tile tools' columns. Efficiencies are in percent; a table of
/// an earlier version holds fractions: it lacks the columns `pick_coarse` and `coarse`, and no value is above
/// 1. Throws not_found, corrupt_data.
std::vector<EvaluatedPick> read_picks(const std::filesystem::path& file);

/// What a new model may lose. The numbers are those of the public tools, which write "%" without saying of
/// what: here mean, median and single problems count in points of efficiency, P10 relative to the old one.
struct AcceptanceLimits {
  double mean_points = 0.5, median_points = 0.5;
  double p10_percent = 2;
  double drop_points = 10;    ///< most that any problem may lose
  double same_points = 0.01;  ///< smaller changes of a problem count as none
  bool both_ways = false;     ///< as the public tools: gains of mean, median and P10 are limited, too
};

struct PickComparison {
  std::size_t problems = 0, only_old = 0, only_new = 0;  ///< in both; in one alone (left out)
  std::size_t agreeing = 0;                              ///< same config
  std::size_t improved = 0, same = 0, degraded = 0;
  struct Statistic {
    double before = 0, after = 0;  ///< fractions
    double points() const noexcept { return 100 * (after - before); }
  };
  Statistic mean, median, p10;
  std::string worst_problem;  ///< that lost most; empty when none lost
  double worst_points = 0;    ///< its change, at most 0
  std::vector<Criterion> criteria;
};

/// Throws invalid_argument: a problem twice in one list, no problem in both.
PickComparison compare_picks(const std::vector<EvaluatedPick>& before,
                             const std::vector<EvaluatedPick>& after, const AcceptanceLimits& limits);

}  // namespace kscout
