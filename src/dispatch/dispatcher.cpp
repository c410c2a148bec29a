#include <cstdint>
#include <mutex>
#include <unordered_map>

#include <kscout/dispatcher.h>

#include "core/fail.h"
#include "core/fork_mutex.h"
#include "dispatch/aliases.h"
#include "dispatch/padding.h"
#include "dispatch/solver.h"

namespace kscout {

namespace {

bool is_empty(const GemmProblem& problem) { return problem.m == 0 || problem.n == 0; }

void refuse_null(ProblemRef problem, const char* operand, const void* memory) {
  if (!memory) fail(Errc::invalid_argument, "{}: '{}' is null; give it memory", print(problem), operand);
}

/// Refuses arguments that the problem's kernels would ignore, and missing ones that they need.
void check_extras(const GemmProblem& problem, const GemmBuffers& buffers) {
  if (has_bias(problem.epilogue) && !is_empty(problem)) refuse_null(problem, "bias", buffers.bias);
  if (!has_bias(problem.epilogue) && buffers.bias) {
    fail(Errc::invalid_argument,
         "{}: a bias is given, but the epilogue is {}; set epilogue=bias, or leave it out", print(problem),
         word(problem.epilogue));
  }
  const auto scaled = [](DType dtype) { return dtype == DType::fp8 || dtype == DType::bf8; };
  if ((buffers.scale_a && !scaled(problem.dtype_a)) || (buffers.scale_b && !scaled(problem.dtype_b))) {
    fail(Errc::invalid_argument, "{}: scales are for operands of 8-bit floats; fold them into alpha",
         print(problem));
  }
}

/// The problem must have passed check().
void check_buffers(const GemmProblem& problem, const GemmBuffers& buffers) {
  if (!is_empty(problem)) {
    refuse_null(problem, "c", buffers.c);
    if (problem.k > 0) refuse_null(problem, "a", buffers.a);
    if (problem.k > 0) refuse_null(problem, "b", buffers.b);
  }
  if (buffers.beta != 0 && !problem.accumulate) {
    fail(Errc::invalid_argument, "beta={} reads C, but {} does not accumulate; set accumulate=1",
         buffers.beta, print(problem));
  }
  check_extras(problem, buffers);
  if (!is_empty(problem)) refuse_aliases(problem, buffers);
}

Registry registry_of(Backend& backend) {
  Registry registry;
  registry.add(backend);
  return registry;
}

void check_tensors(const ConvProblem& problem, const ConvTensors& tensors) {
  refuse_null(problem, "in", tensors.in);
  refuse_null(problem, "wei", tensors.wei);
  refuse_null(problem, "out", tensors.out);
  refuse_aliases(problem, operands_of(problem.op, tensors));
}

/// The decisions and prepared launches for problems of one kind.
template <class P, class S>
class Decided {
 public:
  struct Entry {
    S solution;
    std::unique_ptr<Launch> launch;  ///< null until a run or a workspace query
  };

  Entry& entry(Solver& solver, const P& problem, const MemorySpace& space) {
    const PlacedProblem<P> placed{problem, space};
    if (const auto found = entries_.find(placed); found != entries_.end()) return found->second;
    const S solution = solver.solve(problem, space);
    if (entries_.size() >= Dispatcher::kReadyLaunches) entries_.clear();
    return entries_.emplace(placed, Entry{solution, nullptr}).first->second;
  }

  Entry& ready(Solver& solver, const P& problem, const MemorySpace& space) {
    Entry& one = entry(solver, problem, space);
    if (!one.launch) one.launch = solver.make_ready(problem, one.solution);
    return one;
  }

 private:
  std::unordered_map<PlacedProblem<P>, Entry, PlacedProblemHash<P>> entries_;
};

}  // namespace

struct Dispatcher::Impl {
  explicit Impl(Solver s) : solver(std::move(s)) {}

  void run(Launch& launch, Backend& backend, ProblemRef problem, const GemmBuffers& buffers,
           const RunOn& on) {
    const std::size_t wanted = launch.workspace_bytes();
    if (!on.workspace) {
      return launch.run(buffers, workspaces.at_least(backend.memory(), wanted), on.stream);
    }
    if (on.workspace_bytes < wanted) {
      fail(Errc::invalid_argument, "{}: a workspace of {} bytes, {} are needed (call workspace_bytes)",
           print(problem), on.workspace_bytes, wanted);
    }
    const std::uintptr_t alignment = backend.space().kind == MemoryKind::host ? 64 : 256;
    if (reinterpret_cast<std::uintptr_t>(on.workspace) % alignment != 0) {
      fail(Errc::invalid_argument, "{}: the workspace is not aligned to {} bytes", print(problem), alignment);
    }
    launch.run(buffers, on.workspace, on.stream);
  }

  /// Throws with the rule and its reason when no backend that reaches the memory can run the config.
  Backend& backend_of(ProblemRef problem, const KernelConfig& config, const MemorySpace& space) {
    const Registry::Support support = solver.registry().supports(problem, config, space);
    if (!support.backend) fail(Errc::unsupported, "{}: {}", print(problem), support.refusal);
    if (const std::string why = solver.thread_refusal(*support.backend, config); !why.empty())
      fail(Errc::unsupported, "{}: {}", print(problem), why);
    return *support.backend;
  }

  void run_config(ProblemRef problem, const KernelConfig& config, const GemmBuffers& buffers,
                  const RunOn& on) {
    Backend& backend = backend_of(problem, config, buffers.space);
    const auto launch = backend.prepare(problem, config);
    run(*launch, backend, problem, buffers, on);
  }

  Solver solver;
  /// Guards all members, serialises launches, and makes fork() wait.
  ForkMutex mutex{ForkLevel::dispatcher};
  Decided<GemmProblem, Solution> gemms;
  Decided<ConvProblem, ConvSolution> convs;
  Workspaces workspaces;
};

Dispatcher::Dispatcher(Registry registry, DispatchPolicy policy)
    : impl_(std::make_unique<Impl>(Solver(std::move(registry), std::move(policy)))) {}
Dispatcher::Dispatcher(Selector selector, Backend& backend, DispatchPolicy policy)
    : impl_(std::make_unique<Impl>(Solver(std::move(selector), registry_of(backend), std::move(policy)))) {}
Dispatcher::~Dispatcher() = default;
Dispatcher::Dispatcher(Dispatcher&&) noexcept = default;
Dispatcher& Dispatcher::operator=(Dispatcher&&) noexcept = default;

Solution Dispatcher::get_solution(const GemmProblem& problem, const std::optional<MemorySpace>& space) {
  const std::scoped_lock lock(impl_->mutex);
  Solver& solver = impl_->solver;
  return impl_->gemms.entry(solver, problem, solver.space_or_first(space)).solution;
}

std::size_t Dispatcher::workspace_bytes(const GemmProblem& problem, const std::optional<MemorySpace>& space) {
  const std::scoped_lock lock(impl_->mutex);
  Solver& solver = impl_->solver;
  return impl_->gemms.ready(solver, problem, solver.space_or_first(space)).launch->workspace_bytes();
}

Solution Dispatcher::run(const GemmProblem& problem, const GemmBuffers& buffers, const RunOn& on) {
  check(problem);
  check_buffers(problem, buffers);
  const std::scoped_lock lock(impl_->mutex);
  Solver& solver = impl_->solver;
  auto& first = impl_->gemms.entry(solver, problem, buffers.space);
  if (is_empty(problem)) return first.solution;  // C has no elements: nothing to compute
  if (!first.launch && solver.wants_refinement(first.solution)) {
    solver.refine(problem, buffers, first.solution);
  }
  auto& ready = impl_->gemms.ready(solver, problem, buffers.space);
  impl_->run(*ready.launch, *ready.solution.backend, problem, buffers, on);
  return ready.solution;
}

void Dispatcher::run_explicit(const GemmProblem& problem, const KernelConfig& config,
                              const GemmBuffers& buffers, const RunOn& on) {
  check(problem);
  check_buffers(problem, buffers);
  const std::scoped_lock lock(impl_->mutex);
  if (is_empty(problem)) {
    impl_->backend_of(problem, config, buffers.space);
  } else {
    impl_->run_config(problem, config, buffers, on);
  }
}

ConvSolution Dispatcher::get_solution(const ConvProblem& problem, const std::optional<MemorySpace>& space) {
  const std::scoped_lock lock(impl_->mutex);
  Solver& solver = impl_->solver;
  return impl_->convs.entry(solver, problem, solver.space_or_first(space)).solution;
}

std::size_t Dispatcher::workspace_bytes(const ConvProblem& problem, const std::optional<MemorySpace>& space) {
  const std::scoped_lock lock(impl_->mutex);
  Solver& solver = impl_->solver;
  return impl_->convs.ready(solver, problem, solver.space_or_first(space)).launch->workspace_bytes();
}

ConvSolution Dispatcher::run(const ConvProblem& problem, const ConvTensors& tensors, const RunOn& on) {
  check(problem);
  check_tensors(problem, tensors);
  const std::scoped_lock lock(impl_->mutex);
  auto& ready = impl_->convs.ready(impl_->solver, problem, tensors.space);
  impl_->run(*ready.launch, *ready.solution.backend, problem, operands_of(problem.op, tensors), on);
  return ready.solution;
}

void Dispatcher::run_explicit(const ConvProblem& problem, const KernelConfig& config,
                              const ConvTensors& tensors, const RunOn& on) {
  check(problem);
  check_tensors(problem, tensors);
  const std::scoped_lock lock(impl_->mutex);
  impl_->run_config(problem, config, operands_of(problem.op, tensors), on);
}

std::vector<std::string> Dispatcher::warnings() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->solver.warnings();
}

const Registry& Dispatcher::registry() const noexcept { return impl_->solver.registry(); }

}  // namespace kscout
