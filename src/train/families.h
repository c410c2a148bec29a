#pragma once
/// \file
/// Finds the configs that a model chooses among, from the measurements that it learns from.
///
///     const std::vector<Family> families = families_of(tables, "pruned");    // one per signature
#include <span>
#include <string>
#include <vector>

#include <kscout/family.h>

#include "train/training_set.h"

namespace kscout {

/// The families that the tables were measured from: one per signature among their problems. A family holds
/// the configs that `rules` enumerates and that any of the tables' filters admits. Empty `rules`: the rule
/// set that the tables name, else "default"; when they name several, the tables' own configs, as with
/// kMeasuredRules (these families have the rules about problems that refuse no measured run). Several tables
/// give the same families as one table merged from them. For any CPU, they are those of the whole rule set on
/// any_cpu(); throws invalid_argument when the tables name several rule sets. Behind them are families of the
/// measured signatures with each of `epilogues` instead of none, where the rule set names configs for that:
/// an epilogue changes the order of configs little. Throws invalid_argument when there is none.
std::vector<Family> families_of(std::span<const CompactTable> tables, std::string rules = "",
                                TrainFor devices = TrainFor::one_device,
                                std::span<const Epilogue> epilogues = {});

/// Those of the families whose signature was measured, perhaps without its epilogue. Throws invalid_argument
/// when there is none.
std::vector<Family> measured_families(std::vector<Family> families, const TrainingSet& set);

}  // namespace kscout
