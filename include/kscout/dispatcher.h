#pragma once
/// \file
/// Problem and buffers in, result out: selects a config, makes it ready once, runs it.
///
///     kscout::Dispatcher dispatcher(kscout::Registry::here());
///     dispatcher.run(kscout::make_gemm(16, 4096, 4096), {.a = a, .b = b, .c = c});   // selects, then runs
///     dispatcher.run(kscout::make_gemm(16, 4096, 4096), {.a = a, .b = b, .c = c});   // runs what is ready
///     dispatcher.run(conv_problem, {.in = image, .wei = filter, .out = result});     // a convolution
///
/// Constructing a dispatcher and asking for solutions opens no device; the first run() or workspace_bytes()
/// does. docs/dispatching.md tells the whole way.
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

/// How a problem is given to a kernel. One that no config takes directly (sizes, alignment) is padded:
/// operands are copied into larger ones with zeros behind, and C is copied back.
struct ExecutionForm {
  GemmProblem problem;     ///< what the kernel computes in one call
  std::int64_t calls = 1;  ///< more than 1: one call per batch item
  bool copies_a = false, copies_b = false, copies_c = false;
  double copy_bytes = 0;  ///< read and written by the copies of one run
  bool padded() const noexcept { return copies_a || copies_b || copies_c; }
};

/// What a dispatcher does about a problem.
struct Solution {
  Choice choice;  ///< the config, and who chose it; predictions are of the kernel, without copies
  Backend* backend = nullptr;  ///< what executes it
  ExecutionForm form;          ///< the problem as the kernel sees it
};

/// What a dispatcher does about a convolution, which is never padded.
struct ConvSolution {
  Choice choice;
  Backend* backend = nullptr;
};

/// Who answers when no model does.
enum class Fallback : std::uint8_t {
  analytic,    ///< the least analytic cost: nothing runs
  exhaustive,  ///< every applicable config is verified and timed on operands of its own, once per problem
               ///< and file of decisions
};
template <>
struct EnumWords<Fallback> {
  static constexpr std::string_view what = "fallback";
  static constexpr std::array<std::string_view, 2> words = {"analytic", "exhaustive"};
};

/// First-use refinement: the configs with the best predictions are timed on the caller's problem when it runs
/// for the first time, and the fastest is used from then on (docs/selecting.md).
struct Refinement {
  std::size_t top = 0;    ///< configs that are timed; below 2: none
  double seconds = 0.05;  ///< of timed rounds, once per problem
};

struct DispatchPolicy {
  Fallback fallback = Fallback::analytic;
  std::string rules = "default";  ///< rule set that a fallback chooses from
  Refinement refine = {};
  /// File in which what was found by timing (refinement, exhaustive searches) is kept and looked up; empty:
  /// it lasts as long as the dispatcher. A selector that is given looks it up where its own request names it.
  std::filesystem::path db = {};
  /// Most threads of one kernel on the CPU; configs that need more do not apply. 0: KSCOUT_THREADS, else the
  /// fewest of OMP_NUM_THREADS, the CPUs that the process may use and its CPU quota (docs/selecting.md).
  int threads = 0;
};

/// Where a run takes place, and in whose memory.
struct RunOn {
  Stream stream = {};
  void* workspace = nullptr;  ///< as Launch::run wants it; null: the dispatcher's own, grown when needed
  std::size_t workspace_bytes = 0;  ///< at least Dispatcher::workspace_bytes(problem)
};

/// May be shared by threads: calls run one after the other. A process may fork while other threads are
/// inside: fork() waits until their calls have ended.
class KSCOUT_API Dispatcher {
 public:
  /// Problems whose launches are kept ready; past it all are made anew.
  static constexpr std::size_t kReadyLaunches = 4096;

  /// Models are looked up by (op, element type, device) for each backend of the registry, as Selector::find
  /// does; where several backends can answer, one with a model goes before one without, then the least
  /// predicted time decides, then the registry's order.
  explicit Dispatcher(Registry registry, DispatchPolicy policy = {});
  /// One selector for one backend, which must outlive the dispatcher.
  Dispatcher(Selector selector, Backend& backend, DispatchPolicy policy = {});
  ~Dispatcher();
  Dispatcher(Dispatcher&&) noexcept;
  Dispatcher& operator=(Dispatcher&&) noexcept;

  /// What run() will use for operands in `space` (without it: in the memory of the registry's first backend):
  /// the best config that a backend which reaches them accepts, of the problem itself or else of its
  /// cheapest padded form. A config that this machine cannot run (a model for another device) is passed over
  /// for the next one. Opens no device, unless the fallback is exhaustive and has to measure. Throws
  /// unsupported when no config can run the problem in any form, invalid_argument for a bad problem.
  Solution get_solution(const GemmProblem& problem, const std::optional<MemorySpace>& space = {});

  /// Bytes that run() wants for this problem. Makes the launch ready, so that the next run() of the problem
  /// only runs. Throws what get_solution and Backend::prepare throw.
  std::size_t workspace_bytes(const GemmProblem& problem, const std::optional<MemorySpace>& space = {});

  /// Computes C with get_solution(problem). With a workspace and after workspace_bytes(problem) it allocates
  /// nothing and waits for nothing. A kernel that itself refuses the problem when it is made ready is passed
  /// over for the next one. Throws what workspace_bytes throws, and invalid_argument when beta, a bias or a
  /// scale is given that the problem does not have, when C shares elements with another operand, when no
  /// backend reaches the operands, or when the workspace is too small or not aligned.
  Solution run(const GemmProblem& problem, const GemmBuffers& buffers, const RunOn& on = {});

  /// Computes C with this config, unpadded. Throws unsupported, with the rule and its reason, when it cannot
  /// take the problem.
  void run_explicit(const GemmProblem& problem, const KernelConfig& config, const GemmBuffers& buffers,
                    const RunOn& on = {});

  // The same for convolutions. They run in kernel libraries: no backend has kernels of its own for them. What
  // a policy says of timing (refinement, exhaustive) is for GEMMs.
  ConvSolution get_solution(const ConvProblem& problem, const std::optional<MemorySpace>& space = {});
  std::size_t workspace_bytes(const ConvProblem& problem, const std::optional<MemorySpace>& space = {});
  ConvSolution run(const ConvProblem& problem, const ConvTensors& tensors, const RunOn& on = {});
  void run_explicit(const ConvProblem& problem, const KernelConfig& config, const ConvTensors& tensors,
                    const RunOn& on = {});

  const Registry& registry() const noexcept;
  /// What a person should know: decisions that could not be written to DispatchPolicy::db. Each text once.
  std::vector<std::string> warnings() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kscout
