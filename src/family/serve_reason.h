#pragma once
/// \file
/// Which serves rule keeps one config from one problem.
#include <optional>
#include <span>

#include <kscout/family.h>

namespace kscout {

/// The first rule that refuses; nothing when all admit. Compiles the rules on each call. Throws
/// invalid_argument when one does not compile.
std::optional<Rule> refusing_rule(std::span<const Rule> rules, ProblemRef problem, const KernelConfig& config,
                                  const Device& device);

}  // namespace kscout
