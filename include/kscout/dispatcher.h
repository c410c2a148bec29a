#pragma once
/// \file
/// Runs a problem on given buffers: selects a config, prepares it once, runs it.
///
///     kscout::Dispatcher dispatcher(kscout::Registry::here());
///     dispatcher.run(kscout::make_gemm(16, 4096, 4096), {.a = a, .b = b, .c = c});   // selects, then runs
///     dispatcher.run(kscout::make_gemm(16, 4096, 4096), {.a = a, .b = b, .c = c});   // runs the prepared kernel
///     dispatcher.run(conv_problem, {.in = image, .wei = filter, .out = result});     // a convolution
///     const kscout::PackedFilter packed = dispatcher.pack_filter(conv_problem, {.wei = filter});
///     dispatcher.run(packed, {.in = image, .out = result});                          // packs nothing
///
/// The constructor and get_solution() open no device; the first run() or workspace_bytes() does.
/// docs/dispatching.md describes every step.
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <kscout/backend.h>
#include <kscout/registry.h>
#include <kscout/selector.h>

namespace kscout {

/// How a dispatcher runs a problem.
struct Solution {
  Choice choice;               ///< the config and its source; predictions exclude the copies
  Backend* backend = nullptr;  ///< the backend that executes the config
  ExecutionForm form;          ///< the problem as the kernel sees it
  /// The model's config, where it leaves axes unknown (short names of CK Tile). `choice` then has the model's
  /// predictions, and its config is the one of `agreeing` kernels of the backend with these axes that has the
  /// lowest analytic cost, of equal ones the widest loads. No space: the model's config itself runs.
  KernelConfig model_config = {};
  std::size_t agreeing = 0;  ///< kernels of the backend that agree with model_config and apply; else 0
  double copies_us = 0;      ///< predicted time of the copies; 0 without copies, NaN where it is not known
};

/// The source that answers when there is no model.
enum class Fallback : std::uint8_t {
  analytic,    ///< the lowest analytic cost: nothing runs
  exhaustive,  ///< verifies and times every applicable config on operands of its own, once per problem and
               ///< decision file
};
template <>
struct EnumWords<Fallback> {
  static constexpr std::string_view what = "fallback";
  static constexpr std::array<std::string_view, 2> words = {"analytic", "exhaustive"};
};

/// First-use refinement: the configs with the best predictions are timed on the caller's problem; later runs
/// use the fastest (docs/selecting.md). On a CPU the first run times them. On a GPU they, and the library's
/// first suggestion, take turns on the first runs; nothing waits.
struct Refinement {
  std::size_t top = 0;    ///< configs to time; below 2: no refinement
  double seconds = 0.05;  ///< most timed work, once per problem
};

struct DispatchPolicy {
  Fallback fallback = Fallback::analytic;
  std::string rules = "default";  ///< rule set of the configs that a fallback chooses from
  Refinement refine = {};
  /// File that stores the decisions found by timing (refinement, exhaustive searches); empty: they last as
  /// long as the dispatcher. A selector passed to the constructor reads the file that its own request names.
  std::filesystem::path db = {};
  /// Maximum number of threads of one kernel on the CPU; configs that need more do not apply. 0:
  /// KSCOUT_THREADS, else the minimum of OMP_NUM_THREADS, the CPUs that the process may use and its CPU quota
  /// (docs/selecting.md).
  int threads = 0;
  /// Charges the set-up of a config over this many calls (SelectorRequest::calls). A selector passed to the
  /// constructor charges what its own request says.
  std::int64_t calls = 0;
  /// Limits of all runs; a call may add stricter ones. Decisions under limits are kept apart from others,
  /// also in `db`.
  Limits limits = {};
  /// Max workspace, in bytes, of copies that only make a problem faster; 0: a problem that a kernel takes
  /// runs without copies. Copies that a problem needs are not limited by it.
  std::size_t copies_bytes = std::size_t{2} << 30;
  /// As SelectorRequest::classes.
  std::filesystem::path classes = {};
};

/// The stream, workspace and limits of a run.
struct RunOn {
  Stream stream = {};
  void* workspace = nullptr;  ///< as Launch::run requires; null: the dispatcher's own, grown when needed
  std::size_t workspace_bytes = 0;  ///< at least Dispatcher::workspace_bytes(problem)
  Limits limits = {};               ///< besides those of the dispatcher's policy
};

/// A filter, or B of a GEMM, that a dispatcher packed once, with the config that its runs use. Owns its
/// memory: what the caller gave may change or be freed. It may outlive its dispatcher. A moved-from object
/// can only be destroyed or assigned to.
class PackedFilter {
 public:
  PackedFilter(PackedFilter&&) noexcept;
  PackedFilter& operator=(PackedFilter&&) noexcept;
  ~PackedFilter();

  const Problem& problem() const noexcept;       ///< `prepacked` of a convolution is true
  const Solution& solution() const noexcept;     ///< what a run uses
  double setup_us() const noexcept;              ///< microseconds that packing took
  std::size_t bytes() const noexcept;            ///< memory that the object owns
  std::size_t workspace_bytes() const noexcept;  ///< of a run

 private:
  friend class Dispatcher;
  struct Impl;
  explicit PackedFilter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Threads may share a dispatcher: calls run one after the other. A process may fork while other threads are
/// inside a call: fork() waits until their calls have ended.
class Dispatcher {
 public:
  /// Maximum number of prepared launches; when it is reached, all are dropped and prepared again on use.
  static constexpr std::size_t kReadyLaunches = 4096;

  /// Looks up a model by (op, element type, device) for each backend of the registry, as Selector::find does.
  /// Where several backends can answer, a backend with a model comes before a backend without one. The lower
  /// predicted time decides next, then the registry's order.
  explicit Dispatcher(Registry registry, DispatchPolicy policy = {});
  /// Uses one selector and one backend, which must outlive the dispatcher.
  Dispatcher(Selector selector, Backend& backend, DispatchPolicy policy = {});
  ~Dispatcher();
  Dispatcher(Dispatcher&&) noexcept;
  Dispatcher& operator=(Dispatcher&&) noexcept;

  /// Returns what run() will use for operands in `space` (default: the memory of the registry's first
  /// backend): the best config that some backend with access to `space` accepts, for the problem itself or
  /// else for its cheapest form with copies. A config that this machine cannot run (a model for another
  /// device) is skipped. Opens no device, unless the fallback is exhaustive and has to measure. Throws
  /// unsupported when no config can run the problem in any form, invalid_argument for a bad problem.
  ///
  /// Under limits, configs are prepared in the order of the ranking until one keeps them; this opens the
  /// device, and `unsupported` also means that none does. A library's own suggestions get the limits, too.
  Solution get_solution(ProblemRef problem, const std::optional<MemorySpace>& space = {},
                        const Limits& limits = {});

  /// Bytes of workspace that run() needs for this problem. Prepares the launch, so that the next run() of the
  /// problem only runs. Throws the errors of get_solution and Backend::prepare.
  std::size_t workspace_bytes(ProblemRef problem, const std::optional<MemorySpace>& space = {},
                              const Limits& limits = {});

  /// Computes the result with get_solution(problem), or, while a refinement times runs, with the config whose
  /// turn it is and that is returned. With a workspace and after workspace_bytes(problem), it
  /// allocates nothing and waits for nothing. When a kernel refuses the problem while it is prepared, the
  /// next config is used. Throws the errors of workspace_bytes, and invalid_argument when an operand is
  /// missing, when alpha, beta, a bias or a scale is given that the problem does not have, when the result
  /// shares elements with another operand, when no backend reaches the operands, or when the workspace is too
  /// small or not aligned.
  Solution run(ProblemRef problem, const Buffers& buffers, const RunOn& on = {});
  Solution run(const GemmProblem& problem, const GemmBuffers& buffers, const RunOn& on = {});

  /// Computes C with this config, without copies. Throws unsupported, with the rule or the limit and its
  /// reason, when the config cannot take the problem.
  void run_explicit(ProblemRef problem, const KernelConfig& config, const Buffers& buffers,
                    const RunOn& on = {});
  void run_explicit(const GemmProblem& problem, const KernelConfig& config, const GemmBuffers& buffers,
                    const RunOn& on = {});

  // The same functions for convolutions. They refuse problems that are `prepacked`: a filter's address does
  // not show whether its contents changed, so only pack_filter() keeps a packed filter.
  Solution run(const ConvProblem& problem, const ConvTensors& tensors, const RunOn& on = {});
  void run_explicit(const ConvProblem& problem, const KernelConfig& config, const ConvTensors& tensors,
                    const RunOn& on = {});

  /// Packs the filter of a conv_fwd or conv_bwd_data for many runs; the config is the best one for a problem
  /// that is `prepacked`, whether or not `problem` is; it keeps the limits of the policy. Uses only
  /// tensors.wei and tensors.space, and waits until the filter is packed. Refinement (DispatchPolicy) happens
  /// here, on an image of zeros. Throws the errors of workspace_bytes, invalid_argument for conv_bwd_weight
  /// or a null filter.
  PackedFilter pack_filter(const ConvProblem& problem, const ConvTensors& tensors, Stream stream = {});
  /// Computes the result with a filter that this dispatcher packed; tensors.wei must be null. Throws
  /// invalid_argument for the filter of another dispatcher, tensors in another memory than the filter's, and
  /// as the run of a problem does.
  Solution run(const PackedFilter& filter, const ConvTensors& tensors, const RunOn& on = {});

  /// Packs B of a GEMM, such as the weight of a layer, for many runs: where the solution copies B to aligned
  /// lines, the copy is made here. The solution is the best one if only the other copies take time in each
  /// run. Uses only b.b and b.space, and waits until B is packed. Nothing is refined. Throws the errors of
  /// workspace_bytes, and invalid_argument for a null B.
  PackedFilter pack_b(const GemmProblem& problem, const GemmBuffers& b, Stream stream = {});
  /// Computes C with a B that this dispatcher packed; buffers.b must be null. Throws as the run of a packed
  /// filter.
  Solution run(const PackedFilter& b, const GemmBuffers& buffers, const RunOn& on = {});

  const Registry& registry() const noexcept;
  /// Warnings for the user: decisions that could not be written to DispatchPolicy::db. Each text once.
  std::vector<std::string> warnings() const;

 private:
  struct Impl;
  /// Of a problem that is checked: packs the operand that it may pack once.
  PackedFilter pack(ProblemRef problem, const Buffers& buffers, Stream stream);
  Solution run_packed(const PackedFilter& packed, const Buffers& buffers, const RunOn& on);

  std::unique_ptr<Impl> impl_;
};

}  // namespace kscout
