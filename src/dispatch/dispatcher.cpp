#include <mutex>
#include <unordered_map>

#include <kscout/dispatcher.h>

#include "core/fail.h"
#include "dispatch/solver.h"
#include "dispatch/workspace.h"

namespace kscout {

namespace {

void check_buffers(const GemmProblem& problem, const GemmBuffers& buffers) {
  if (buffers.beta != 0 && !problem.accumulate) {
    fail(Errc::invalid_argument, "beta={} reads C, but {} does not accumulate; set accumulate=1",
         buffers.beta, print(problem));
  }
}

Registry registry_of(Backend& backend) {
  Registry registry;
  registry.add(backend);
  return registry;
}

bool is_empty(const GemmProblem& problem) { return problem.m == 0 || problem.n == 0; }

}  // namespace

struct Dispatcher::Impl {
  struct Entry {
    Solution solution;
    std::unique_ptr<Launch> launch;  ///< null until a run or a workspace query
  };

  explicit Impl(Solver s) : solver(std::move(s)) {}

  Entry& entry(const GemmProblem& problem) {
    if (const auto found = entries.find(problem); found != entries.end()) return found->second;
    const Solution solution = solver.solve(problem);
    if (entries.size() >= kReadyLaunches) entries.clear();
    return entries.emplace(problem, Entry{solution, nullptr}).first->second;
  }

  Entry& ready(const GemmProblem& problem) {
    Entry& one = entry(problem);
    if (!one.launch) one.launch = solver.make_ready(problem, one.solution);
    return one;
  }

  void run(Launch& launch, Backend& backend, const GemmProblem& problem, const GemmBuffers& buffers,
           const RunOn& on) {
    const std::size_t wanted = launch.workspace_bytes();
    if (!on.workspace) {
      return launch.run(buffers, workspaces.at_least(backend.memory(), wanted), on.stream);
    }
    if (on.workspace_bytes < wanted) {
      fail(Errc::invalid_argument, "{}: a workspace of {} bytes, {} are needed (ask workspace_bytes)",
           print(problem), on.workspace_bytes, wanted);
    }
    launch.run(buffers, on.workspace, on.stream);
  }

  Solver solver;
  std::mutex mutex;  ///< guards everything, and makes launches run one after the other
  std::unordered_map<GemmProblem, Entry> entries;
  Workspaces workspaces;
};

Dispatcher::Dispatcher(Registry registry, DispatchPolicy policy)
    : impl_(std::make_unique<Impl>(Solver(std::move(registry), std::move(policy)))) {}
Dispatcher::Dispatcher(Selector selector, Backend& backend, DispatchPolicy policy)
    : impl_(std::make_unique<Impl>(Solver(std::move(selector), registry_of(backend), std::move(policy)))) {}
Dispatcher::~Dispatcher() = default;
Dispatcher::Dispatcher(Dispatcher&&) noexcept = default;
Dispatcher& Dispatcher::operator=(Dispatcher&&) noexcept = default;

Solution Dispatcher::get_solution(const GemmProblem& problem) {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->entry(problem).solution;
}

std::size_t Dispatcher::workspace_bytes(const GemmProblem& problem) {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->ready(problem).launch->workspace_bytes();
}

Solution Dispatcher::run(const GemmProblem& problem, const GemmBuffers& buffers, const RunOn& on) {
  check_buffers(problem, buffers);
  const std::scoped_lock lock(impl_->mutex);
  if (is_empty(problem)) return impl_->entry(problem).solution;  // no element of C: nothing to compute
  if (Impl::Entry& first = impl_->entry(problem);
      !first.launch && impl_->solver.wants_refinement(first.solution)) {
    impl_->solver.refine(problem, buffers, first.solution);
  }
  Impl::Entry& ready = impl_->ready(problem);
  impl_->run(*ready.launch, *ready.solution.backend, problem, buffers, on);
  return ready.solution;
}

void Dispatcher::run_explicit(const GemmProblem& problem, const KernelConfig& config,
                              const GemmBuffers& buffers, const RunOn& on) {
  check(problem);
  check_buffers(problem, buffers);
  const Registry::Support support = registry().supports(problem, config);
  if (!support.backend) fail(Errc::unsupported, "{}: {}", print(problem), support.refusal);
  if (is_empty(problem)) return;
  const std::scoped_lock lock(impl_->mutex);
  const auto launch = support.backend->prepare(problem, config);
  impl_->run(*launch, *support.backend, problem, buffers, on);
}

const Registry& Dispatcher::registry() const noexcept { return impl_->solver.registry(); }

}  // namespace kscout
