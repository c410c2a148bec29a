#pragma once
/// \file
/// Says why a config cannot run, by the rules of its family's file. The rules of a file are compiled once.
///
///     const std::string why = rule_refusal(problem, config, device);   // empty: no rule refuses it
///
/// A reason names the rule, its `because` and the values that the rule reads.
#include <cstdint>
#include <string>
#include <vector>

#include <kscout/any_problem.h>
#include <kscout/config.h>
#include <kscout/device.h>

#include "provider/signature_rules.h"

namespace kscout {

/// Evaluates the rules of kind `legal`.
std::string legal_refusal(const Signature& signature, const KernelConfig& config, const Device& device);

/// Evaluates the rules of kind `legal`, then those of kind `applicability` that are not slow.
std::string rule_refusal(ProblemRef problem, const KernelConfig& config, const Device& device);

/// Which rules admitted() asks.
enum class Asked : std::uint8_t {
  suggested,  ///< those that a library's own suggestions must obey, too (Rule::suggested)
  all,        ///< of kind `legal` and of kind `applicability`, except slow ones
};

/// 1 for each config that no rule refuses for the problem; all configs of one provider's own space. One
/// evaluation serves all of them.
std::vector<std::uint8_t> admitted(ProblemRef problem, const ConfigTable& configs, const Device& device,
                                   Asked rules);

// ---- What the family's file says about limits (kscout/limits.h).

/// Why a config may give other bits in another run; empty when it cannot. A suggestion of a library's has the
/// answer of the formula, which must hold for all algorithms that it may stand for.
std::string deterministic_refusal(ProblemRef problem, const KernelConfig& config, const Device& device);

/// Bytes of workspace that a config needs at most; NaN when that is not known.
double workspace_bound(ProblemRef problem, const KernelConfig& config, const Device& device);

}  // namespace kscout
