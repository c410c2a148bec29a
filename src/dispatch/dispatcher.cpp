#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include <kscout/dispatcher.h>

#include "core/fail.h"
#include "core/fork_mutex.h"
#include "dispatch/aliases.h"
#include "dispatch/padding.h"
#include "dispatch/solver.h"
#include "measure/timing.h"
#include "op/struct_operation.h"

namespace kscout {

namespace {

bool is_empty(ProblemRef problem) { return operation(problem.kind()).is_empty(problem); }

void refuse_null(ProblemRef problem, std::string_view operand, const void* memory) {
  if (!memory) fail(Errc::invalid_argument, "{}: '{}' is null; give it memory", print(problem), operand);
}

/// Checks the problem and its buffers; with `packed`, the packable operand is not among them.
const Buffers& checked(ProblemRef problem, const Buffers& buffers, bool packed = false) {
  check(problem);
  const Operation& of = operation(problem.kind());
  if (of.is_prepacked(problem) && !packed) {
    fail(Errc::invalid_argument,
         "{}: prepacked=1 needs a packed filter; make one with pack_filter and run that, or leave it out",
         print(problem));
  }
  if (buffers.alpha != 1 && !of.has_alpha) {
    fail(Errc::invalid_argument, "alpha={}: kernels of {} have no such factor; leave it out", buffers.alpha,
         of.plural);
  }
  if (buffers.beta != 0 && !signature_of(problem).accumulate) {
    fail(Errc::invalid_argument, "beta={} reads C, but {} does not accumulate; set accumulate=1",
         buffers.beta, print(problem));
  }
  if (!of.is_empty(problem)) {
    for (const Tensor& tensor : of.operands(problem)) {
      if (packed && tensor.at == Buffers::packable) continue;
      if (!tensor.optional && tensor.elements() > 0)
        refuse_null(problem, tensor.name, buffers.operand[tensor.at]);
    }
  }
  of.check_buffers(problem, buffers);
  if (!of.is_empty(problem)) refuse_aliases(problem, buffers);
  return buffers;
}

/// The tensors of a convolution as operands.
Buffers buffers_of(const ConvProblem& problem, const ConvTensors& tensors) {
  check(problem);
  return operands_of(problem.op, tensors);
}

/// The operand that may be packed once.
Tensor packable(ProblemRef problem) {
  const OperandList operands = operation(problem.kind()).operands(problem);
  return *std::ranges::find(operands, Buffers::packable, &Tensor::at);
}

/// Checks the operands of a run with a packed filter or B.
const Buffers& checked(const PackedFilter& filter, const MemorySpace& packed_in, const Buffers& buffers) {
  const Problem& problem = filter.problem();
  const Tensor packed = packable(problem);
  if (buffers.operand[Buffers::packable]) {
    fail(Errc::invalid_argument, "{}: '{}' is packed already, so it is not read; give null", print(problem),
         packed.name);
  }
  if (buffers.space != packed_in) {
    fail(Errc::invalid_argument, "{}: the operands are in memory {}, the packed '{}' is in {}; pack it there",
         print(problem), print(buffers.space), packed.name, print(packed_in));
  }
  return checked(problem, buffers, true);
}

[[noreturn]] void refuse_packed(const PackedFilter& packed, std::string_view given) {
  fail(Errc::invalid_argument, "{} was packed: a run of it takes no {}", print(packed.problem()), given);
}

/// The problem with a filter that is packed once; throws where it has none.
ConvProblem prepacked(const ConvProblem& problem, const ConvTensors& tensors) {
  check(problem);
  ConvProblem packed = problem;
  packed.prepacked = true;
  check(packed);
  refuse_null(packed, "wei", tensors.wei);
  return packed;
}

std::size_t bytes_of(std::int64_t elements, DType dtype) {
  return static_cast<std::size_t>(std::ceil(static_cast<double>(elements) * bytes_per_element(dtype)));
}

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
    std::unique_ptr<Launch> launch;  ///< null until a run or a workspace query
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
    decided.make_ready(solver, problem, one);
    return one.launch->workspace_bytes();
  }

  /// The problem and its buffers must be checked.
  Solution run_best(ProblemRef problem, const Buffers& buffers, const RunOn& on) {
    const std::scoped_lock lock(mutex);
    Decided::Entry& one = entry(problem, buffers.space, on.limits);
    if (is_empty(problem)) return one.solution;  // nothing to compute
    if (!one.launch && solver.wants_refinement(one.solution))
      solver.refine(buffers, one.solution, one.limits);
    decided.make_ready(solver, problem, one);
    run(*one.launch, *one.solution.backend, problem, buffers, on);
    return one.solution;
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

  /// Times the best configs on the filter, an image of zeros and a result of its own.
  void refine_packed(const ConvProblem& problem, const ConvTensors& tensors, Solution& solution) {
    const ConvElements elements = operand_elements(problem);
    const std::int64_t image = problem.op == Op::conv_fwd ? elements.in : elements.out;
    // Zeros also stand for a bias.
    const std::size_t bytes =
        std::max(bytes_of(image, signature_of(problem).dtype_a), bytes_of(problem.k, problem.dtype_out));
    Memory& memory = solution.backend->memory();
    Workspace zeros;
    void* const image_of_zeros = zeros.at_least(memory, bytes);
    memory.set(image_of_zeros, std::byte{0}, bytes, {});
    Buffers buffers = operands_of(problem.op, tensors);
    buffers.operand[0] = image_of_zeros;
    if (has_bias(problem.epilogue)) buffers.operand[kBias] = image_of_zeros;
    solver.refine(buffers, solution, solver.limits_with({}));
  }

  /// The problem is prepacked; it and its filter must be checked.
  std::unique_ptr<PackedFilter::Impl> pack(const ConvProblem& problem, const ConvTensors& tensors,
                                           Stream stream) {
    const std::scoped_lock lock(mutex);
    Decided::Entry& one = entry(problem, tensors.space, {});
    if (!one.launch && solver.wants_refinement(one.solution)) refine_packed(problem, tensors, one.solution);
    decided.make_ready(solver, problem, one);
    Solution solution = one.solution;
    auto launch = solver.make_ready(problem, solution, one.limits);  // of its own: the entry's may be dropped
    return pack_with(problem, std::move(solution), std::move(launch), tensors.wei, stream);
  }

  /// The problem and B must be checked.
  std::unique_ptr<PackedFilter::Impl> pack_b(const GemmProblem& problem, const GemmBuffers& b,
                                             Stream stream) {
    const std::scoped_lock lock(mutex);
    const Limits limits = solver.limits_with({});
    Solution solution = solver.solve(problem, b.space, limits, OperandB::packed_once);
    auto launch = solver.make_ready(problem, solution, limits, OperandB::packed_once);
    return pack_with(problem, std::move(solution), std::move(launch), b.b, stream);
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
    const auto filter = static_cast<std::size_t>(packable(problem).bytes());
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
    (filter.launch->packed_bytes() > 0 ? buffers.packed : buffers.operand[Buffers::packable]) = packed;
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
Solution Dispatcher::run(const GemmProblem& problem, const GemmBuffers& buffers, const RunOn& on) {
  return run(ProblemRef(problem), Buffers(buffers), on);
}
Solution Dispatcher::run(const ConvProblem& problem, const ConvTensors& tensors, const RunOn& on) {
  return run(ProblemRef(problem), buffers_of(problem, tensors), on);
}

PackedFilter Dispatcher::pack_filter(const ConvProblem& problem, const ConvTensors& tensors, Stream stream) {
  return PackedFilter(impl_->pack(prepacked(problem, tensors), tensors, stream));
}
Solution Dispatcher::run(const PackedFilter& filter, const ConvTensors& tensors, const RunOn& on) {
  if (!filter.problem().is<ConvProblem>()) refuse_packed(filter, "tensors of a convolution");
  const Buffers buffers = operands_of(filter.problem().op(), tensors);
  return impl_->run_packed(*filter.impl_, checked(filter, filter.impl_->space, buffers), on);
}

PackedFilter Dispatcher::pack_b(const GemmProblem& problem, const GemmBuffers& b, Stream stream) {
  check(problem);
  if (is_empty(problem))
    fail(Errc::invalid_argument, "{}: C is empty, so there is no B to pack", print(problem));
  if (packable(problem).elements() > 0) refuse_null(problem, "b", b.b);
  return PackedFilter(impl_->pack_b(problem, b, stream));
}
Solution Dispatcher::run(const PackedFilter& b, const GemmBuffers& buffers, const RunOn& on) {
  if (!b.problem().is<GemmProblem>()) refuse_packed(b, "operands of a GEMM");
  return impl_->run_packed(*b.impl_, checked(b, b.impl_->space, Buffers(buffers)), on);
}

void Dispatcher::run_explicit(ProblemRef problem, const KernelConfig& config, const Buffers& buffers,
                              const RunOn& on) {
  impl_->run_config(problem, config, checked(problem, buffers), on);
}
void Dispatcher::run_explicit(const GemmProblem& problem, const KernelConfig& config,
                              const GemmBuffers& buffers, const RunOn& on) {
  run_explicit(ProblemRef(problem), config, Buffers(buffers), on);
}
void Dispatcher::run_explicit(const ConvProblem& problem, const KernelConfig& config,
                              const ConvTensors& tensors, const RunOn& on) {
  run_explicit(ProblemRef(problem), config, buffers_of(problem, tensors), on);
}

std::vector<std::string> Dispatcher::warnings() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->solver.warnings();
}

const Registry& Dispatcher::registry() const noexcept { return impl_->solver.registry(); }

}  // namespace kscout
