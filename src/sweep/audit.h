#pragma once
/// \file
/// Audits a library: its own suggestions for problems, each run and verified against float64.
///
///     Audit audit(backend("cuda"), {.suggestions = 8});
///     for (const SweepPlan& plan : audit.plans(problems)) {
///       run_sweep(plan, {.folder = folder, .worker = default_worker()});
///       audit.add(read_state(folder));
///     }
///     std::puts(errata_toml(audit.errata(), ...).c_str());
///
/// A suggestion is named by its algorithm before it runs, so that the rules do not replace it by another one:
/// also suggestions that the rules refuse are run. Each wrong one gets the verdict of the rules, and a
/// reproduction.
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include <kscout/backend.h>
#include <kscout/family.h>

#include "sweep/errata.h"
#include "sweep/journal.h"
#include "sweep/plan.h"

namespace kscout {

struct AuditOptions {
  std::size_t suggestions = 8;  ///< per problem, best first
  bool with_known = false;      ///< errata() also finds rules for what a rule refuses already
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
  /// Throws invalid_argument for 0 suggestions.
  Audit(Backend& backend, const AuditOptions& options);

  /// One sweep per operation: the problems, each with the library's suggestions for it. Problems that the
  /// library does not take are counted and left out. Throws unsupported for a backend without a library that
  /// suggests kernels.
  std::vector<SweepPlan> plans(const std::vector<Problem>& problems);
  /// Adds what a sweep of such a plan measured.
  void add(const SweepState& state);

  std::size_t problems() const noexcept { return problems_; }
  std::size_t not_taken() const noexcept { return not_taken_; }  ///< problems without a suggestion
  std::size_t runs() const noexcept { return run_; }
  /// Suggestions that this library's users may not run, whatever they compute: kind `legal`, or no memory.
  std::size_t refused() const noexcept { return refused_; }
  const std::vector<WrongSuggestion>& wrong() const noexcept { return wrong_; }
  /// Refused by a rule about wrong results, but right in all runs of this audit: number by rule.
  const std::map<std::string, std::size_t>& right_but_refused() const noexcept { return right_; }

  /// By rule, most wrong suggestions first.
  std::vector<AuditRow> rows() const;
  /// "cuBLASLt 13.1.0": what the suggestions of a problem came from.
  std::string library(Op op) const;
  /// What the wrong suggestions have in common; without AuditOptions::with_known, those that no rule about
  /// wrong results refuses.
  std::vector<Erratum> errata() const;

 private:
  Backend& backend_;
  AuditOptions options_;
  std::map<Op, std::vector<std::vector<KernelConfig>>> suggested_;  ///< by problem of a plan, best first
  std::size_t problems_ = 0, not_taken_ = 0, run_ = 0, refused_ = 0;
  std::vector<AuditedRun> audited_;  ///< what errata() reads
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
