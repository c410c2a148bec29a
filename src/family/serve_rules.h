#pragma once
/// \file
/// Which configs of a family can take a problem: serves rules made ready once, asked often.
///
///     ServeRules rules(family.serves, family.configs, family.traits, family.device);
///     std::vector<std::uint8_t> serves(family.configs.size());
///     rules.ask(problem, serves);
#include <cstdint>
#include <span>
#include <vector>

#include <kscout/family.h>

#include "expr/expr.h"

namespace kscout {

class ServeRules {
 public:
  /// Copies what the rules read. Rules are complete in themselves: they use no formula of a family file.
  /// Throws invalid_argument when a rule does not compile.
  ServeRules(std::span<const Rule> rules, const ConfigTable& configs, std::span<const Traits> traits,
             const Device& device);
  ServeRules(const ServeRules&) = delete;  // inputs_ points to program_
  ServeRules& operator=(const ServeRules&) = delete;

  std::size_t configs() const noexcept { return configs_; }
  /// The rules made ready, one formula each.
  const expr::Program& program() const noexcept { return program_; }
  /// Writes 1 to `serves[i]` when every rule admits config i for the problem, else 0. serves.size() ==
  /// configs(). Allocates on the first call only.
  void ask(const GemmProblem& problem, std::span<std::uint8_t> serves);

 private:
  expr::Program program_;
  expr::Inputs inputs_;
  expr::Scratch scratch_;
  std::vector<double> answers_;
  std::size_t configs_ = 0;
};

}  // namespace kscout
