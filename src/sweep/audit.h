#pragma once
/// \file
/// Audits a library: runs its own suggestions on problems and verifies each against float64.
///
///     Audit audit(backend("cuda"), {.suggestions = 8});
///     for (const Problem& problem : problems) audit.add(problem, measure);
///     std::puts(audit.errata_toml().c_str());
///
/// A suggestion is named by its algorithm before it runs, so that the rules do not replace it by another one:
/// also suggestions that the rules refuse are run. Each wrong one gets the verdict of the rules, and a
/// reproduction.
#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <kscout/backend.h>
#include <kscout/family.h>

#include "measure/problem_bench.h"

namespace kscout {

struct AuditOptions {
  std::size_t suggestions = 8;  ///< per problem, best first
};

/// A suggestion that computed a wrong result, did not end, or crashed.
struct WrongSuggestion {
  Problem problem;
  KernelConfig config;
  std::size_t place = 1;  ///< 1: what the library runs when nobody asks for another one
  Status status = Status::wrong;
  std::string reason;
  Verdict verdict;  ///< of the rules
};

/// The wrong suggestions that one rule refuses, or that no rule does.
struct AuditRow {
  std::string rule;   ///< empty: no rule refuses them
  std::string since;  ///< Rule::since; for no rule, this library
  std::size_t wrong = 0, problems = 0;
  std::size_t first_place = 0;               ///< of these, in how many problems the first suggestion is wrong
  const WrongSuggestion* example = nullptr;  ///< with the fewest multiplications
};

class Audit {
 public:
  /// Runs some configs of a problem, in processes of their own or not; one outcome per config.
  using Measure = std::function<std::vector<Outcome>(const Problem&, std::span<const KernelConfig>)>;

  /// Throws unsupported for a backend without a library that suggests kernels.
  Audit(Backend& backend, const AuditOptions& options);

  /// Runs the library's suggestions for a problem. A problem that the library does not take is counted.
  void add(const Problem& problem, const Measure& measure);

  std::size_t problems() const noexcept { return problems_; }
  std::size_t not_taken() const noexcept { return not_taken_; }  ///< problems without a suggestion
  std::size_t runs() const noexcept { return runs_; }
  /// Suggestions that this library's users may not run, whatever they compute: kind `legal`, or no memory.
  std::size_t refused() const noexcept { return refused_; }
  const std::vector<WrongSuggestion>& wrong() const noexcept { return wrong_; }
  /// Refused by a rule about wrong results, but right in all runs of this audit: number by rule.
  const std::map<std::string, std::size_t>& right_but_refused() const noexcept { return right_; }

  /// By rule, most wrong suggestions first.
  std::vector<AuditRow> rows() const;
  /// "cuBLASLt 13.1.0": what the suggestions of a problem came from.
  std::string library(Op op) const;
  /// Rules for the wrong suggestions that no rule refuses, as a family file includes them. Each refuses one
  /// config for the problems on which it was wrong; a person may widen it. Empty when there are none.
  std::string errata_toml() const;

 private:
  Backend& backend_;
  AuditOptions options_;
  std::size_t problems_ = 0, not_taken_ = 0, runs_ = 0, refused_ = 0;
  std::vector<WrongSuggestion> wrong_;
  std::map<std::string, std::size_t> right_;
};

/// Programs of at most 20 lines that show a wrong suggestion.
struct Reproduction {
  std::string cpp;  ///< runs exactly this config and verifies it; compiled in KernelScout's source tree
  /// What PyTorch's own call of the library returns; the first suggestion only. Empty where PyTorch has no
  /// such call.
  std::string pytorch;
};
Reproduction reproduction(const WrongSuggestion& wrong);

}  // namespace kscout
