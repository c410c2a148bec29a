#include "dispatch/solver.h"

#include "core/fail.h"
#include "dispatch/padding.h"

namespace kscout {

namespace {

DispatchPolicy checked(DispatchPolicy policy) {
  if (policy.threads < 0)
    fail(Errc::invalid_argument, "threads={}: must be at least 1, or 0 for the default limit",
         policy.threads);
  if (policy.calls < 0)
    fail(Errc::invalid_argument, "calls={}: must be at least 1, or 0 to charge no set-up", policy.calls);
  if (!(policy.refine.seconds >= 0))
    fail(Errc::invalid_argument, "refinement of {} seconds: must be at least 0", policy.refine.seconds);
  check(policy.limits);
  if (policy.limits.batch_invariant && (policy.refine.top >= 2 || policy.fallback == Fallback::exhaustive))
    fail(Errc::invalid_argument,
         "policy batch-invariant takes what `kscout classes` timed: refinement and an exhaustive fallback "
         "have no effect; leave them out");
  return policy;
}

std::unique_ptr<Launch> prepare(ProblemRef problem, const Solution& solution, const Limits& limits) {
  const Problem& of = solution.form.problem;
  const KernelConfig& config = solution.choice.config;
  Backend& backend = *solution.backend;
  auto inner = limits.any() ? backend.prepare_within(
                                  of, config, within_form(problem, solution.form, limits).value_or(limits))
                            : backend.prepare(of, config);
  return padded_launch(problem, solution.form, std::move(inner), backend.memory());
}

}  // namespace

Solver::Solver(Registry registry, DispatchPolicy policy)
    : offers_(std::move(registry), checked(std::move(policy))) {}
Solver::Solver(Selector selector, Registry registry, DispatchPolicy policy)
    : offers_(std::move(registry), checked(std::move(policy)), std::move(selector)) {}

MemorySpace Solver::space_or_first(const std::optional<MemorySpace>& space) const {
  if (space) return *space;
  return registry().backends().empty() ? MemorySpace{} : registry().backends().front()->space();
}

Limits Solver::limits_with(const Limits& of_call) const {
  check(of_call);
  return both(offers_.policy().limits, of_call);
}

Solution Solver::solve(ProblemRef problem, const ChooseRequest& request) {
  Solution solution = choose(offers_, problem, request);
  const bool searches = offers_.policy().fallback == Fallback::exhaustive && request.refused.empty() &&
                        uncertainty(solution.choice) > 0;
  if (!searches) return solution;
  const Limits limits = within_form(problem, solution.form, request.limits).value_or(request.limits);
  auto measured = refiner_.measured(offers_, solution.form, request.space, limits);
  if (!measured) return solution;
  measured->form = solution.form;
  return *measured;
}

std::unique_ptr<Launch> Solver::make_ready(ProblemRef problem, Solution& solution, const Limits& limits,
                                           Packable packable) {
  std::vector<Refused> refused;
  for (;;) {
    try {
      return prepare(problem, solution, limits);
    } catch (const Error& error) {
      if (error.code() != Errc::unsupported) throw;
      refused.push_back({solution.backend, solution.form.problem, solution.choice.config, error.what()});
    }
    solution = solve(problem, {solution.backend->space(), limits, refused, packable});
  }
}

Backend& Solver::backend_of(ProblemRef problem, const KernelConfig& config,
                            const std::optional<MemorySpace>& space) {
  const Registry::Support support = registry().supports(problem, config, space);
  if (!support.backend) fail(Errc::unsupported, "{}: {}", print(problem), support.refusal);
  if (const std::string why = offers_.thread_refusal(*support.backend, config); !why.empty())
    fail(Errc::unsupported, "{}: {}", print(problem), why);
  return *support.backend;
}

}  // namespace kscout
