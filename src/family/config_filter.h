#pragma once
/// \file
/// Which configs a formula holds for.
///
///     const auto of_cutlass = holding_configs("c.by == 'cutlass'", table.configs, table.device, signature);
#include <span>
#include <string>
#include <vector>

#include <kscout/any_problem.h>
#include <kscout/config.h>
#include <kscout/device.h>

namespace kscout {

/// One answer per config, all of one space; the formula reads c. (the config's axes), d. (the device) and s.
/// (the signature), and what it cannot compute does not hold. Throws what compiling a formula throws.
std::vector<bool> holding_configs(const std::string& formula, std::span<const KernelConfig> configs,
                                  const Device& device, const Signature& signature);

}  // namespace kscout
