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

class DecisionTable {
 public:
  DecisionTable() = default;
  /// Passes over what is not of `provider` (empty: of any), what `disabled` names, and what does not parse: a
  /// file of a time with other names does no harm.
  DecisionTable(std::span<const StoredDecision> decisions, std::string_view provider,
                std::span<const NamedConfig> disabled);

  /// Null when the problem was not timed. Allocates nothing.
  const Choice* find(const GemmProblem& problem) const noexcept;
  std::size_t size() const noexcept { return choices_.size(); }
  std::size_t passed_over() const noexcept { return passed_over_; }

 private:
  std::unordered_map<GemmProblem, Choice> choices_;
  std::size_t passed_over_ = 0;
};

}  // namespace kscout
