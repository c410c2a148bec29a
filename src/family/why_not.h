#pragma once
/// \file
/// why_not_in() with how far away the config is, for who compares answers.
#include <cstddef>
#include <limits>
#include <vector>

#include "family/family_file.h"

namespace kscout {

/// Why a rule set does not have a config.
struct WhyNot {
  std::vector<Rule> refusing;  ///< none: it has it
  /// On how many axes the config differs from the nearest block; the largest number when there is none.
  std::size_t axes_outside = std::numeric_limits<std::size_t>::max();
};

WhyNot why_not(const FamilyFile& file, const FamilyRequest& request, const KernelConfig& config);

}  // namespace kscout
