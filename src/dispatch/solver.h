#pragma once
/// \file
/// Solves a problem in four steps, each a file of its own: what the backends offer (offers.h), the choice of
/// backend, config and form (choose.h), times where predictions are not enough (refine.h), and the launch
/// (padding.h). Uses neither buffers nor locks, except to refine.
///
///     Solver solver(Registry::here(), {});
///     Solution solution = solver.solve(problem);
///     auto launch = solver.make_ready(problem, solution);   // skips a kernel that refuses only now
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <kscout/dispatcher.h>

#include "dispatch/choose.h"
#include "dispatch/offers.h"
#include "dispatch/refine.h"

namespace kscout {

class Solver {
 public:
  /// Looks up selectors per backend, op and element type.
  Solver(Registry registry, DispatchPolicy policy);
  /// Uses one selector for all problems.
  Solver(Selector selector, Registry registry, DispatchPolicy policy);

  /// The given memory, or that of the registry's first backend.
  MemorySpace space_or_first(const std::optional<MemorySpace>& space) const;
  /// The limits of the policy and those of a call. Throws invalid_argument for limits that are not valid.
  Limits limits_with(const Limits& of_call) const;

  /// See Dispatcher::get_solution.
  Solution solve(ProblemRef problem, const std::optional<MemorySpace>& space = {}, const Limits& limits = {},
                 Packable packable = Packable::as_given) {
    return solve(problem, {space_or_first(space), limits, {}, packable});
  }
  /// Whether to refine a solution at its first run (Refiner::wants).
  bool wants_refinement(const Solution& solution) const noexcept {
    return Refiner::wants(offers_.policy(), solution);
  }
  /// See Refiner::trial, Refiner::settle.
  std::unique_ptr<Trial> trial(const Solution& solution, const Limits& limits) {
    return refiner_.trial(offers_, solution, limits);
  }
  void settle(const Trial& trial, const Fastest& fastest, Solution& solution, const Limits& limits) {
    refiner_.settle(offers_, trial, fastest, solution, limits);
  }
  /// Times the best configs on the caller's operands; the fastest becomes the solution's config.
  void refine(const Buffers& buffers, Solution& solution, const Limits& limits = {}) {
    refiner_.refine(offers_, buffers, solution, limits);
  }
  /// Prepares the launch of a solution. When its kernel refuses, prepares the next one, which becomes the
  /// solution.
  std::unique_ptr<Launch> make_ready(ProblemRef problem, Solution& solution, const Limits& limits = {},
                                     Packable packable = Packable::as_given);

  /// The backend that runs the config. Throws unsupported with the rule and its reason when no backend that
  /// reaches the memory (nothing: of any backend) can.
  Backend& backend_of(ProblemRef problem, const KernelConfig& config,
                      const std::optional<MemorySpace>& space = {});

  const Registry& registry() const noexcept { return offers_.registry(); }
  /// See Dispatcher::warnings.
  const std::vector<std::string>& warnings() const noexcept { return refiner_.warnings(); }

 private:
  Solution solve(ProblemRef problem, const ChooseRequest& request);

  Offers offers_;
  Refiner refiner_;
};

}  // namespace kscout
