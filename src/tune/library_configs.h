#pragma once
/// \file
/// Finds the algorithms of a vendor's library that a tune on a GPU chooses among, as rule sets.
///
///     const std::string all = harvested_rules(problems);              // what the library lists
///     const std::string few = shortlist_rules(pilot);                 // the fewest that are near the best
///     const SweepPlan plan = plan_of_rules(few, problems, request, device, protocol);
#include <string>
#include <string_view>
#include <vector>

#include <kscout/measurement.h>

#include "sweep/plan.h"

namespace kscout {

/// The text of a rule set (docs/formats/family.md): the algorithms that cuBLASLt suggests for some of the
/// problems, and those that the program knows of this release. Asks the library in a child process, so that
/// this one opens no GPU. Throws unsupported (no GPU, or types that the library does not compute) and
/// device_failure.
std::string harvested_rules(const std::vector<Problem>& problems);

/// The text of a rule set: the library's first suggestion and, per signature, the fewest measured configs
/// that keep almost the best speed of the pilot's problems.
std::string shortlist_rules(const MeasurementTable& pilot);

/// make_plan() among the configs of a rule set's text. The plan names its rules kMeasuredRules, because no
/// other program can look the text up.
SweepPlan plan_of_rules(const std::string& rules, const std::vector<Problem>& problems, PlanRequest request,
                        const Device& device, const Protocol& protocol);

/// The rows of some configs, and only these configs.
MeasurementTable rows_of_configs(const MeasurementTable& table, const std::vector<KernelConfig>& configs);

}  // namespace kscout
