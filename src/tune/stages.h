#pragma once
/// \file
/// Draws the problems of a tune and shares its budget among their size classes.
///
///     for (const TuneStage& stage : tune_stages(Op::gemm, request, device, budget_s, measured))
///       measure(stage.problems, left_s * stage.share);      // small problems first
#include <string>
#include <unordered_set>
#include <vector>

#include <kscout/device.h>

#include "sweep/guided.h"
#include "tune/tune.h"

namespace kscout {

/// The problems of one size class, in no order; on a GPU those of all classes.
struct TuneStage {
  std::string name;               ///< "0.1_to_1 GFLOP", for people
  double share = 1;               ///< of the time that this and the later stages have
  std::vector<Problem> problems;  ///< equally many of each source, none of those `measured`
};

/// Stages from small to large, so that large problems profit from what won on smaller ones. A class is left
/// out when its share of `budget_s` would not pay for a few problems, and problems above max_gflop are.
/// `measured` is left out.
std::vector<TuneStage> tune_stages(Op op, const TuneRequest& request, const Device& device, double budget_s,
                                   const std::unordered_set<Problem>& measured);

/// The problems of a plan that take most of the time of all their calls, as many as a budget pays for by a
/// rough estimate, and at least one.
std::vector<Problem> weightiest_of(const SweepPlan& plan, double budget_s);

/// The fastest config of every problem of the tables.
std::vector<Winner> winners_of(const std::vector<MeasurementTable>& tables);

}  // namespace kscout
