#pragma once
/// \file
/// Stored decisions that hold here, ready to be looked up by many threads.
///
///     const DecisionTable table(db.read(origin), "native", {});
///     if (const Choice* known = table.find(problem)) ...
///
/// What was fastest for a problem is best by every order: the problem is fixed, so TFLOPS and bandwidth
/// follow from the time.
#include <cstddef>
#include <span>
#include <string_view>
#include <unordered_map>

#include <kscout/provider.h>
#include <kscout/selector.h>

#include "select/decision_db.h"

namespace kscout {

/// The choice that a timing decided: `time_us` of the config, `next_us` of the one that follows it (NaN =
/// unknown, then so is the margin).
Choice timed_choice(ProblemRef problem, const KernelConfig& config, double time_us, double next_us);

class DecisionTable {
 public:
  DecisionTable() = default;
  /// Passes over what `provider` (empty: any) does not have, what `disabled` names, and what does not parse:
  /// a file of a time with other names does no harm. Of several for one problem the fastest counts.
  DecisionTable(std::span<const StoredDecision> decisions, std::string_view provider,
                std::span<const NamedConfig> disabled);

  /// Null when the problem was not timed. Allocates nothing.
  const Choice* find(ProblemRef problem) const noexcept;
  std::size_t size() const noexcept { return gemms_.size() + convs_.size(); }
  std::size_t passed_over() const noexcept { return passed_over_; }

 private:
  template <class Self>
  static auto& choices_of(Self& self, const GemmProblem& /*kind*/) noexcept {
    return self.gemms_;
  }
  template <class Self>
  static auto& choices_of(Self& self, const ConvProblem& /*kind*/) noexcept {
    return self.convs_;
  }

  std::unordered_map<GemmProblem, Choice> gemms_;
  std::unordered_map<ConvProblem, Choice> convs_;
  std::size_t passed_over_ = 0;
};

}  // namespace kscout
