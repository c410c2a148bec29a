#pragma once
/// \file
/// Replaces predictions by times: of the best configs on the caller's operands at the first run of a problem,
/// or of every config on generated ones where nothing is predicted.
///
///     if (refiner.wants(solution)) refiner.refine(offers, buffers, solution, limits);
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include <kscout/dispatcher.h>

#include "dispatch/offers.h"
#include "dispatch/timed_choice.h"
#include "dispatch/trial.h"

namespace kscout {

/// A problem and the memory of its operands.
struct PlacedProblem {
  Problem problem;
  MemorySpace space;
  bool operator==(const PlacedProblem&) const = default;
};
struct PlacedProblemHash {
  std::size_t operator()(const PlacedProblem& of) const noexcept {
    const auto place = static_cast<std::size_t>(of.space.ordinal) * EnumWords<MemoryKind>::words.size() +
                       static_cast<std::size_t>(of.space.kind);
    return std::hash<Problem>()(of.problem) + 0x9E3779B97F4A7C15u * place;
  }
};

class Refiner {
 public:
  /// Whether to refine a solution at its first run: the policy requests it, there is no timing of the
  /// problem, and its form has no copies.
  static bool wants(const DispatchPolicy& policy, const Solution& solution) noexcept;
  /// The best configs of a solution, and the library's first suggestion, to take turns on its first calls;
  /// null where calls can only be timed one after the other, by refine().
  std::unique_ptr<Trial> trial(Offers& offers, const Solution& solution, const Limits& limits);
  /// What a trial found becomes the solution and is stored.
  void settle(Offers& offers, const Trial& trial, const Fastest& fastest, Solution& solution,
              const Limits& limits);
  /// Times the best configs on the caller's operands; the fastest becomes the solution's config and is
  /// stored.
  void refine(Offers& offers, const Buffers& buffers, Solution& solution, const Limits& limits);
  /// The result of an exhaustive search over one form, cached and stored; nothing when the search finds no
  /// config.
  std::optional<Solution> measured(Offers& offers, const ExecutionForm& form, const MemorySpace& space,
                                   const Limits& limits);

  /// See Dispatcher::warnings.
  const std::vector<std::string>& warnings() const noexcept { return warnings_; }

 private:
  /// Writes a timed solution to the policy's decision file, if any; adds a warning when that fails.
  /// `candidates`: those that were timed.
  void keep(const DispatchPolicy& policy, const Solution& solution, const Fastest& fastest,
            std::span<const Candidate> candidates, const Limits& limits);

  /// By print(Limits).
  std::map<std::string, std::unordered_map<PlacedProblem, std::optional<Solution>, PlacedProblemHash>>
      measured_;
  std::vector<std::string> warnings_;
};

}  // namespace kscout
