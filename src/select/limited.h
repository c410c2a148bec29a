#pragma once
/// \file
/// Ranks only the configs that keep limits: evaluates a ranking from its start and leaves the others out.
///
///     const Limited limited(request);
///     status = limited.rank(chain, problem, by, best, count, limits, scratch);
///
/// For decisions, which are cached, not for the hot path: a kernel may have to be prepared to tell its
/// workspace.
#include <span>
#include <string>

#include <kscout/limits.h>
#include <kscout/selector.h>

#include "select/fallback_chain.h"

namespace kscout {

class Limited {
 public:
  /// Throws invalid_argument for limits that are not valid.
  explicit Limited(const SelectorRequest& request);

  /// The request's limits and those of a call.
  Limits with(const Limits& of_call) const noexcept { return both(always_, of_call); }

  /// Like FallbackChain::rank. A decision that was timed under the same limits comes first. Returns no_config
  /// when no config keeps the limits.
  SelectStatus rank(const FallbackChain& chain, ProblemRef problem, By by, std::span<Choice> best,
                    std::size_t& count, const Limits& limits, SelectScratch& scratch) const;

  /// Throws unsupported: which limit the best config breaks. The chain must have a config for the problem.
  [[noreturn]] void explain(const FallbackChain& chain, ProblemRef problem, By by, const Limits& limits,
                            SelectScratch& scratch) const;

 private:
  std::string refusal(ProblemRef problem, const KernelConfig& config, const Limits& limits) const;

  Limits always_;
  std::function<std::string(ProblemRef, const KernelConfig&, const Limits&)> breaks_;
  Device device_;
  std::int64_t calls_;
};

}  // namespace kscout
