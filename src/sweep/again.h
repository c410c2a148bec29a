#pragma once
/// \file
/// A sweep's contenders once more, on the same problems: what one visit to a problem cannot see (where its
/// operands lie in memory, what the machine did in those seconds) is averaged out over several.
///
///     SweepPlan plan = contenders_again(read_state("runs/first"), device);
///     plan.seed = 17;          // other operands, another order
///     run_sweep(plan, ...);    // then: kscout dataset merge first.parquet again.parquet --keep mean
#include <kscout/device.h>

#include "sweep/journal.h"
#include "sweep/plan.h"

namespace kscout {

/// The plan of `before` with, of each problem, only the configs that stayed in the rounds of its pass 2 to
/// their end; problems without any are left out. Seed: that of `before` plus one. Throws invalid_argument
/// when `device` is not the one that was measured, not_found when nothing contended.
SweepPlan contenders_again(const SweepState& before, const Device& device);

}  // namespace kscout
