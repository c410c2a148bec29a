#pragma once
/// \file
/// Which configs of a family can take a problem: serves rules made ready once, asked often by many threads.
///
///     const ServeRules rules(family.serves, family.configs, family.traits, family.device);
///     ServeRules::Scratch scratch;                                   // one per thread
///     std::vector<std::uint8_t> serves(family.configs.size());
///     rules.ask(problem, serves, scratch);
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <kscout/any_problem.h>
#include <kscout/config.h>
#include <kscout/device.h>
#include <kscout/family.h>

#include "expr/expr.h"

namespace kscout {

class ServeRules {
 public:
  /// Grows on first use, then is reused for the rules of any family.
  struct Scratch {
    expr::Scratch expr;
    expr::ProblemInputs::Memory inputs;
    std::vector<double> answers;
  };

  /// Copies what the rules read. Rules are complete in themselves: they use no formula of a family file.
  /// Throws invalid_argument when a rule does not compile.
  ServeRules(std::span<const Rule> rules, const ConfigTable& configs, std::span<const Traits> traits,
             const Device& device);
  ServeRules(const ServeRules&) = delete;  // inputs_ belong to program_
  ServeRules& operator=(const ServeRules&) = delete;

  std::size_t configs() const noexcept { return configs_; }
  /// The rules made ready, one formula each.
  const expr::Program& program() const noexcept { return program_; }
  /// Writes 1 to `serves[i]` when every rule admits config i for the problem, else 0. serves.size() ==
  /// configs(). Allocates only when `scratch` is smaller than these rules need.
  void ask(ProblemRef problem, std::span<std::uint8_t> serves, Scratch& scratch) const;

 private:
  expr::Program program_;
  expr::ProblemInputs inputs_;
  std::size_t configs_ = 0;
};

// ---- Which serves rule keeps one config from one problem.

/// The first rule that refuses; nothing when all admit. Compiles the rules on each call. Throws
/// invalid_argument when one does not compile.
std::optional<Rule> refusing_rule(std::span<const Rule> rules, ProblemRef problem, const KernelConfig& config,
                                  const Device& device);

// ---- Which configs a formula holds for.
//
//     const auto of_cutlass = holding_configs("c.by == 'cutlass'", table.configs, table.device, signature);

/// One answer per config, all of one space; the formula reads c. (the config's axes), d. (the device) and s.
/// (the signature), and what it cannot compute does not hold. Throws what compiling a formula throws.
std::vector<bool> holding_configs(const std::string& formula, std::span<const KernelConfig> configs,
                                  const Device& device, const Signature& signature);

}  // namespace kscout
