#pragma once
/// \file
/// What timing several configs on one problem found out, and what a file of decisions keeps of it.
#include <cstddef>
#include <limits>

#include <kscout/backend.h>
#include <kscout/selector.h>

#include "select/decision_db.h"

namespace kscout {

struct Fastest {
  std::size_t index = 0;                                      ///< of the fastest among those that were given
  double time_us = std::numeric_limits<double>::quiet_NaN();  ///< its median
  double next_us = std::numeric_limits<double>::quiet_NaN();  ///< the smallest median of the others
  std::size_t timed = 0;                                      ///< how many took part to the end
};

/// What a file of decisions keeps of it, as found now by this version of the library.
StoredDecision decision_of(const GemmProblem& problem, const KernelConfig& config, const Fastest& fastest,
                           Backend& on);

}  // namespace kscout
