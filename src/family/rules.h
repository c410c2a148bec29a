#pragma once
/// \file
/// Evaluates a family's rules and filters: which configs can take a problem. Compiled once, asked by many
/// threads.
///
///     const ApplicabilityRules rules(family.applicability, family.configs, family.traits, family.device);
///     ApplicabilityRules::Scratch scratch;                                   // one per thread
///     std::vector<std::uint8_t> applicable(family.configs.size());
///     rules.evaluate(problem, applicable, scratch);                           // all configs
///     rules.evaluate(problem, picked, applicable, scratch);                   // some: picked[i] is a position
#include <algorithm>
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
#include "expr/few_rows.h"
#include "family/family_file.h"

namespace kscout {

class ApplicabilityRules {
 public:
  /// Grows on first use, then is reused for the rules of any family.
  using Scratch = expr::FewRowsProgram::Scratch;

  /// Copies what the rules read. Rules are complete in themselves: they use no formula of a family file.
  /// Throws invalid_argument when a rule does not compile.
  ApplicabilityRules(std::span<const Rule> rules, const ConfigTable& configs, std::span<const Traits> traits,
                     const Device& device);

  std::size_t configs() const noexcept { return admitted_.size(); }
  /// The compiled rules, one formula each.
  const expr::Program& program() const noexcept { return program_; }
  /// Writes 1 to `applicable[i]` when every rule admits config i for the problem, else 0. applicable.size()
  /// == configs(). Allocates only when `scratch` is smaller than these rules need.
  void evaluate(ProblemRef problem, std::span<std::uint8_t> applicable, Scratch& scratch) const;
  /// The same for some of the configs: applicable[i] is about config picked[i]. applicable.size() ==
  /// picked.size().
  void evaluate(ProblemRef problem, std::span<const std::uint32_t> picked, std::span<std::uint8_t> applicable,
                Scratch& scratch) const;

 private:
  /// False when a rule about the problem alone refuses it. Throws unsupported for a problem of another
  /// operation.
  bool set_problem(ProblemRef problem, Scratch& scratch) const;
  /// At most expr::FewRowsProgram::block of them.
  void evaluate_block(std::span<const std::uint32_t> picked, std::span<std::uint8_t> applicable,
                      Scratch& scratch) const;

  expr::Program program_;
  expr::ProblemRows rows_;
  std::vector<std::uint8_t> admitted_;                 ///< by config: 0 = a rule refuses it for every problem
  std::vector<std::uint32_t> by_problem_, by_config_;  ///< rules about the problem alone, and about both
};

// ---- Which applicability rule keeps one config from one problem.

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

// ---- Formulas over c., d., s. compiled for one request: what enumeration and its explanations evaluate.
// For the sources of this folder.

/// Candidates with some axes bound.
struct CandidateBatch {
  std::size_t rows = 1;
  std::vector<std::vector<double>> values;            ///< by axis; unbound ones are empty
  std::vector<std::vector<std::uint32_t>> positions;  ///< the same, as positions in the block's lists
};

/// Formulas over c., d., s. with device and signature filled in.
class BoundProgram {
 public:
  BoundProgram(const std::vector<expr::Formula>& formulas, const expr::Scope& scope,
               const FamilyRequest& request)
      : program_(expr::Program::compile(formulas, scope)), inputs_(program_) {
    inputs_.set("d", request.device);
    inputs_.set("s", request.signature);
  }
  BoundProgram(const BoundProgram&) = delete;  // inputs_ points to program_
  BoundProgram& operator=(const BoundProgram&) = delete;

  std::size_t size() const { return program_.size(); }
  const expr::Program& program() const { return program_; }

  /// Formula f of row r at [f * rows + r].
  std::span<const double> evaluate(const CandidateBatch& batch) {
    columns_.assign(inputs_.columns().begin(), inputs_.columns().end());
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const expr::Input& input = program_.inputs()[i];
      if (program_.groups()[input.group].space) columns_[i] = {batch.values[input.field].data(), 1};
    }
    out_.resize(size() * batch.rows);
    program_.evaluate(columns_, batch.rows, out_, scratch_);
    return out_;
  }

  std::span<const double> evaluate(const KernelConfig& config) {
    inputs_.set("c", config);
    out_.resize(size());
    program_.evaluate(inputs_.columns(), 1, out_, scratch_);
    return out_;
  }

 private:
  expr::Program program_;
  expr::Inputs inputs_;
  std::vector<expr::Column> columns_;
  std::vector<double> out_;
  expr::Scratch scratch_;
};

/// NaN does not admit: what a device is not known to allow is left out.
inline bool admits(double value) { return value != 0 && value == value; }

/// The rules that decide membership, the request's filter last.
inline std::vector<Rule> membership_rules(const FamilyFile& file, const FamilyRequest& request) {
  const std::vector<std::string>& without = file.rule_set(request.rules).without;
  std::vector<Rule> rules;
  for (const Rule& rule : file.rules) {
    if (rule.kind != RuleKind::applicability && std::ranges::find(without, rule.name) == without.end())
      rules.push_back(rule);
  }
  if (!request.filter.empty())
    rules.push_back({"filter", RuleKind::worth, request.filter, "asked for by the filter"});
  return rules;
}

/// With a name that no formula can refer to.
inline expr::Formula formula_of(const Rule& rule) {
  return {rule.name == "filter" ? "filter" : "rule " + rule.name, rule.admits};
}

inline std::vector<expr::Formula> formulas_of(std::span<const Rule> rules) {
  std::vector<expr::Formula> formulas;
  for (const Rule& rule : rules) formulas.push_back(formula_of(rule));
  return formulas;
}

}  // namespace kscout
