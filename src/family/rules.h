#pragma once
/// \file
/// Evaluates a family's rules and filters: which configs can take a problem. Rules are compiled once and
/// evaluated by many threads.
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
  using Scratch = expr::FewRows::Scratch;

  /// Copies the inputs of the rules. Rules are self-contained: they use no formula of a family file. Throws
  /// invalid_argument when a rule does not compile.
  ApplicabilityRules(std::span<const Rule> rules, const ConfigTable& configs, std::span<const Traits> traits,
                     const Device& device);

  std::size_t configs() const noexcept { return admitted_.size(); }
  /// The compiled rules, one formula each.
  const expr::Program& program() const noexcept { return program_; }
  /// Writes 1 to `applicable[i]` when every rule admits config i for the problem, else 0. applicable.size()
  /// == configs(). Allocates only when `scratch` is smaller than these rules need.
  void evaluate(ProblemRef problem, std::span<std::uint8_t> applicable, Scratch& scratch) const;
  /// The same for some of the configs: applicable[i] refers to config picked[i]. applicable.size() ==
  /// picked.size().
  void evaluate(ProblemRef problem, std::span<const std::uint32_t> picked, std::span<std::uint8_t> applicable,
                Scratch& scratch) const;

 private:
  /// Sets the problem; false when a rule that reads only the problem refuses it. Throws unsupported for a
  /// problem of another operation.
  bool set_problem(ProblemRef problem, Scratch& scratch) const;
  /// evaluate() for at most expr::FewRows::block configs, after set_problem().
  void evaluate_block(std::span<const std::uint32_t> picked, std::span<std::uint8_t> applicable,
                      Scratch& scratch) const;

  expr::Program program_;
  expr::FewRows rows_;
  std::vector<std::uint8_t> admitted_;  ///< by config: 0 = a rule refuses it for every problem
  /// Rules that read only the problem, and rules that read problem and config.
  std::vector<std::uint32_t> by_problem_, by_config_;
};

// ---- Finds the applicability rule that refuses a config for a problem.

/// The first rule that refuses the config; nothing when all admit it. Compiles the rules on each call. Throws
/// invalid_argument when a rule does not compile.
std::optional<Rule> refusing_rule(std::span<const Rule> rules, ProblemRef problem, const KernelConfig& config,
                                  const Device& device);

// ---- Finds the configs that satisfy a formula.
//
//     const auto of_cutlass =
//         holding_configs({"--filter", "c.by == 'cutlass'"}, table.configs, table.device, signature);

/// One result per config; all configs belong to one space. The formula reads c. (the config's axes), d. (the
/// device) and s. (the signature); an unknown result counts as false. Throws the errors of compiling a
/// formula, which contain its name.
std::vector<bool> holding_configs(const expr::Formula& formula, std::span<const KernelConfig> configs,
                                  const Device& device, const Signature& signature);

// ---- Compiles formulas over c., d., s. for one request: enumeration and its explanations evaluate them.
// Only the sources of this folder use this part.

/// Candidates with some axes bound.
struct CandidateBatch {
  std::size_t rows = 1;
  std::vector<std::vector<double>> values;            ///< by axis; unbound ones are empty
  std::vector<std::vector<std::uint32_t>> positions;  ///< the same values, as positions in the block's lists
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

  /// Evaluates all formulas: formula f of row r is at [f * rows + r].
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

/// NaN does not admit: a config whose limits the device does not state is left out.
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

/// The formula of a rule, under a name that no formula can refer to.
inline expr::Formula formula_of(const Rule& rule) {
  return {rule.name == "filter" ? "filter" : "rule " + rule.name, rule.admits};
}

inline std::vector<expr::Formula> formulas_of(std::span<const Rule> rules) {
  std::vector<expr::Formula> formulas;
  for (const Rule& rule : rules) formulas.push_back(formula_of(rule));
  return formulas;
}

}  // namespace kscout
