#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <mutex>
#include <unordered_map>

#include <kscout/dispatcher.h>

#include "core/fail.h"
#include "core/fork_mutex.h"
#include "dispatch/operand_checks.h"
#include "dispatch/padding.h"
#include "dispatch/solver.h"
#include "measure/measured_backend.h"
#include "measure/timing.h"
#include "op/operation.h"

namespace kscout {

namespace {

bool is_empty(ProblemRef problem) { return operation(problem.kind()).is_empty(problem); }

Registry registry_of(Backend& backend) {
  Registry registry;
  registry.add(backend);
  return registry;
}

/// A problem, the memory of its operands, and the limits of a run.
struct LimitedProblem {
  PlacedProblem placed;
  Limits limits;
  bool operator==(const LimitedProblem&) const = default;
};
struct LimitedProblemHash {
  std::size_t operator()(const LimitedProblem& of) const noexcept {
    const auto limits = 4 * static_cast<std::size_t>(of.limits.workspace_bytes) +
                        (of.limits.deterministic ? 2 : 0) + (of.limits.batch_invariant ? 1 : 0);
    return PlacedProblemHash()(of.placed) + 0xC2B2AE3D27D4EB4Fu * (limits + 4);
  }
};

/// The decisions and prepared launches.
class Decided {
 public:
  struct Entry {
    Solution solution;
    Limits limits;
    std::unique_ptr<Launch> launch;          ///< null until a run or a workspace query
    bool is_refined = false;                 ///< or begun to be
    std::unique_ptr<Trial> trial = nullptr;  ///< while calls are timed
  };

  Entry& entry(Solver& solver, ProblemRef problem, const MemorySpace& space, const Limits& limits) {
    const LimitedProblem key{{problem.value(), space}, limits};
    if (const auto found = entries_.find(key); found != entries_.end()) return found->second;
    const Solution solution = solver.solve(problem, space, limits);
    if (entries_.size() >= Dispatcher::kReadyLaunches) entries_.clear();
    return entries_.emplace(key, Entry{solution, limits, nullptr}).first->second;
  }

  void make_ready(Solver& solver, ProblemRef problem, Entry& one) {
    if (!one.launch) one.launch = solver.make_ready(problem, one.solution, one.limits);
  }

 private:
  std::unordered_map<LimitedProblem, Entry, LimitedProblemHash> entries_;
};

}  // namespace

struct PackedFilter::Impl {
  Problem problem;
  Solution solution;
  MemorySpace space;
  Registry registry;  ///< keeps the backend alive, longer than launch and memory
  std::unique_ptr<Launch> launch;
  std::uint64_t dispatcher;  ///< number of the dispatcher whose lock guards the launch
  std::size_t bytes = 0;
  Workspace memory = {};  ///< the packed filter, or a copy of the filter for a launch that packs nothing
  double setup_us = 0;
};

PackedFilter::PackedFilter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PackedFilter::PackedFilter(PackedFilter&&) noexcept = default;
PackedFilter& PackedFilter::operator=(PackedFilter&&) noexcept = default;
PackedFilter::~PackedFilter() = default;

const Problem& PackedFilter::problem() const noexcept { return impl_->problem; }
const Solution& PackedFilter::solution() const noexcept { return impl_->solution; }
double PackedFilter::setup_us() const noexcept { return impl_->setup_us; }
std::size_t PackedFilter::bytes() const noexcept { return impl_->bytes; }
std::size_t PackedFilter::workspace_bytes() const noexcept { return impl_->launch->workspace_bytes(); }

struct Dispatcher::Impl {
  explicit Impl(Solver s) : solver(std::move(s)) {}

  void run(Launch& launch, Backend& backend, ProblemRef problem, const Buffers& buffers, const RunOn& on) {
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

  Decided::Entry& entry(ProblemRef problem, const std::optional<MemorySpace>& space, const Limits& limits) {
    return decided.entry(solver, problem, solver.space_or_first(space), solver.limits_with(limits));
  }

  Solution get_solution(ProblemRef problem, const std::optional<MemorySpace>& space, const Limits& limits) {
    const std::scoped_lock lock(mutex);
    return entry(problem, space, limits).solution;
  }

  std::size_t workspace_bytes(ProblemRef problem, const std::optional<MemorySpace>& space,
                              const Limits& limits) {
    const std::scoped_lock lock(mutex);
    Decided::Entry& one = entry(problem, space, limits);
    if (!is_empty(problem)) begin_trial(one, {});
    if (one.trial) return one.trial->workspace_bytes();
    decided.make_ready(solver, problem, one);
    return one.launch->workspace_bytes();
  }

  /// The problem and its buffers must be checked.
  Solution run_best(ProblemRef problem, const Buffers& buffers, const RunOn& on) {
    const std::scoped_lock lock(mutex);
    Decided::Entry& one = entry(problem, buffers.space, on.limits);
    if (is_empty(problem)) return one.solution;  // nothing to compute
    begin_trial(one, on.stream);
    if (one.trial) end_trial(one);
    if (one.trial) return run_trial(problem, one, buffers, on);
    if (!one.launch && wants_times(one) && !clock_of(one)) {
      one.is_refined = true;
      solver.refine(buffers, one.solution, one.limits);
    }
    decided.make_ready(solver, problem, one);
    run(*one.launch, *one.solution.backend, problem, buffers, on);
    return one.solution;
  }

  bool wants_times(const Decided::Entry& one) const {
    return !one.is_refined && solver.wants_refinement(one.solution);
  }
  static StreamClock* clock_of(const Decided::Entry& one) {
    return instruments_of(*one.solution.backend).stream_clock();
  }

  /// Begins to time the best configs on calls to come, on a device whose calls can be timed without waiting.
  void begin_trial(Decided::Entry& one, Stream stream) {
    if (!wants_times(one)) return;
    StreamClock* const clock = clock_of(one);
    if (!clock || clock->captures(stream)) return;  // a later call begins
    one.is_refined = true;
    one.trial = solver.trial(one.solution, one.limits);
  }

  /// Ends a trial whose times are known: its fastest kernel is the entry's.
  void end_trial(Decided::Entry& one) {
    const auto fastest = one.trial->result();
    if (!fastest) return;
    solver.settle(*one.trial, *fastest, one.solution, one.limits);
    one.launch = one.trial->take(fastest->index);
    one.trial.reset();
  }

  Solution run_trial(ProblemRef problem, Decided::Entry& one, const Buffers& buffers, const RunOn& on) {
    const std::size_t any_size = std::numeric_limits<std::size_t>::max();
    Trial::Call call = one.trial->next(on.stream, on.workspace ? on.workspace_bytes : any_size);
    try {
      run(*call.launch, *one.solution.backend, problem, buffers, on);
    } catch (...) {
      one.trial->add(call, on.stream, /*ran=*/false);
      throw;
    }
    one.trial->add(call, on.stream, /*ran=*/true);
    Solution ran = one.solution;
    ran.choice = *call.choice;
    return ran;
  }

  /// The problem and its buffers must be checked.
  void run_config(ProblemRef problem, const KernelConfig& config, const Buffers& buffers, const RunOn& on) {
    const std::scoped_lock lock(mutex);
    Backend& backend = solver.backend_of(problem, config, buffers.space);
    if (is_empty(problem)) return;
    const Limits limits = solver.limits_with(on.limits);
    const auto launch =
        limits.any() ? backend.prepare_within(problem, config, limits) : backend.prepare(problem, config);
    run(*launch, backend, problem, buffers, on);
  }

  /// Times the best configs on the packable operand, zeros for the others and a result of its own.
  void refine_packed(ProblemRef problem, Buffers buffers, Solution& solution) {
    const Operation& of = operation(problem.kind());
    const OperandList operands = of.operands(problem);
    const auto is_zeroed = [&](const Tensor& tensor) {
      return tensor.role == TensorRole::input && tensor.at != of.packable && !tensor.optional;
    };
    std::size_t bytes = 0;
    for (const Tensor& tensor : operands)
      if (is_zeroed(tensor)) bytes = std::max(bytes, static_cast<std::size_t>(tensor.bytes()));
    Memory& memory = solution.backend->memory();
    Workspace zeros;
    void* const at = zeros.at_least(memory, bytes);
    memory.set(at, std::byte{0}, bytes, {});
    for (const Tensor& tensor : operands)
      if (is_zeroed(tensor)) buffers.operand[tensor.at] = at;
    solver.refine(buffers, solution, solver.limits_with({}));
  }

  /// The problem and the packable operand must be checked. The solution of a problem that is prepacked is
  /// that of its runs, which get refined; else the best one if only the other copies take time in each run.
  std::unique_ptr<PackedFilter::Impl> pack(ProblemRef problem, const Buffers& buffers, Stream stream) {
    const std::scoped_lock lock(mutex);
    const void* const operand = buffers.operand[packable_operand(problem).at];
    const Limits limits = solver.limits_with({});
    if (!operation(problem.kind()).is_prepacked(problem)) {
      Solution solution = solver.solve(problem, buffers.space, limits, Packable::packed_once);
      auto launch = solver.make_ready(problem, solution, limits, Packable::packed_once);
      return pack_with(problem, std::move(solution), std::move(launch), operand, stream);
    }
    Decided::Entry& one = entry(problem, buffers.space, {});
    if (!one.launch && solver.wants_refinement(one.solution)) refine_packed(problem, buffers, one.solution);
    decided.make_ready(solver, problem, one);
    Solution solution = one.solution;
    auto launch = solver.make_ready(problem, solution, limits);  // of its own: the entry's may be dropped
    return pack_with(problem, std::move(solution), std::move(launch), operand, stream);
  }

  /// Packs an operand, or copies it for a launch that packs nothing.
  std::unique_ptr<PackedFilter::Impl> pack_with(ProblemRef problem, Solution solution,
                                                std::unique_ptr<Launch> launch, const void* operand,
                                                Stream stream) {
    Memory& memory = solution.backend->memory();
    std::unique_ptr<PackedFilter::Impl> packed(new PackedFilter::Impl{.problem = problem.value(),
                                                                      .solution = std::move(solution),
                                                                      .space = {},
                                                                      .registry = solver.registry(),
                                                                      .launch = std::move(launch),
                                                                      .dispatcher = number});
    packed->space = packed->solution.backend->space();
    const auto filter = static_cast<std::size_t>(packable_operand(problem).bytes());
    const bool packs = packed->launch->packed_bytes() > 0;
    packed->bytes = packs ? packed->launch->packed_bytes() : filter;
    void* const to = packed->memory.at_least(memory, packed->bytes);
    const std::int64_t begin = now_ns();
    if (packs) {
      packed->launch->pack(operand, to, stream);
    } else if (filter > 0) {
      const auto bytes = static_cast<std::int64_t>(filter);
      memory.copy(
          {.from = operand, .to = to, .lines = 1, .line_bytes = bytes, .to_lines = 1, .to_line_bytes = bytes},
          stream);
    }
    std::byte first{};
    if (packed->bytes > 0) memory.read(&first, to, 1, stream);  // waits until the operand is there
    packed->setup_us = static_cast<double>(now_ns() - begin) / 1e3;
    return packed;
  }

  Solution run_packed(PackedFilter::Impl& filter, Buffers buffers, const RunOn& on) {
    const std::scoped_lock lock(mutex);
    if (filter.dispatcher != number) {
      fail(Errc::invalid_argument, "{}: another dispatcher packed the filter; run it there",
           print(filter.problem));
    }
    Memory& memory = filter.solution.backend->memory();
    const void* const packed = filter.memory.at_least(memory, filter.bytes);
    (filter.launch->packed_bytes() > 0 ? buffers.packed
                                       : buffers.operand[operation(filter.problem.kind()).packable]) = packed;
    run(*filter.launch, *filter.solution.backend, filter.problem, buffers, on);
    return filter.solution;
  }

  static std::uint64_t next_number() noexcept {
    static std::atomic<std::uint64_t> last = 0;
    return ++last;
  }

  const std::uint64_t number = next_number();
  Solver solver;
  /// Guards all members, serialises launches, and makes fork() wait.
  ForkMutex mutex{ForkLevel::dispatcher};
  Decided decided;
  Workspaces workspaces;
};

Dispatcher::Dispatcher(Registry registry, DispatchPolicy policy)
    : impl_(std::make_unique<Impl>(Solver(std::move(registry), std::move(policy)))) {}
Dispatcher::Dispatcher(Selector selector, Backend& backend, DispatchPolicy policy)
    : impl_(std::make_unique<Impl>(Solver(std::move(selector), registry_of(backend), std::move(policy)))) {}
Dispatcher::~Dispatcher() = default;
Dispatcher::Dispatcher(Dispatcher&&) noexcept = default;
Dispatcher& Dispatcher::operator=(Dispatcher&&) noexcept = default;

Solution Dispatcher::get_solution(ProblemRef problem, const std::optional<MemorySpace>& space,
                                  const Limits& limits) {
  return impl_->get_solution(problem, space, limits);
}

std::size_t Dispatcher::workspace_bytes(ProblemRef problem, const std::optional<MemorySpace>& space,
                                        const Limits& limits) {
  return impl_->workspace_bytes(problem, space, limits);
}

Solution Dispatcher::run(ProblemRef problem, const Buffers& buffers, const RunOn& on) {
  return impl_->run_best(problem, checked(problem, buffers), on);
}
void Dispatcher::run_explicit(ProblemRef problem, const KernelConfig& config, const Buffers& buffers,
                              const RunOn& on) {
  impl_->run_config(problem, config, checked(problem, buffers), on);
}

PackedFilter Dispatcher::pack(ProblemRef problem, const Buffers& buffers, Stream stream) {
  const Tensor operand = packable_operand(problem);
  if (operand.elements() > 0) refuse_null(problem, operand.name, buffers.operand[operand.at]);
  return PackedFilter(impl_->pack(problem, buffers, stream));
}
Solution Dispatcher::run_packed(const PackedFilter& packed, const Buffers& buffers, const RunOn& on) {
  const MemorySpace& space = packed.impl_->space;
  return impl_->run_packed(*packed.impl_, checked_beside_packed(packed.problem(), space, buffers), on);
}

std::vector<std::string> Dispatcher::warnings() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->solver.warnings();
}

const Registry& Dispatcher::registry() const noexcept { return impl_->solver.registry(); }

}  // namespace kscout
