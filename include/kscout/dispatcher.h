#pragma once
/// \file
/// Problem and buffers in, result out: selects a config, makes it ready once, runs it.
///
///     kscout::Backend& cpu = kscout::backend("cpu");
///     auto selector = kscout::Selector::find(kscout::Op::gemm, kscout::DType::fp32, {.device = cpu.device()});
///     kscout::Dispatcher dispatcher(std::move(selector), cpu);
///     dispatcher.run(kscout::make_gemm(16, 4096, 4096), {.a = a, .b = b, .c = c});   // selects, then runs
///     dispatcher.run(kscout::make_gemm(16, 4096, 4096), {.a = a, .b = b, .c = c});   // runs what is ready
///
/// Constructing a dispatcher and asking for solutions opens no device; the first run() or workspace_bytes()
/// does. docs/dispatching.md tells the whole way.
#include <cstddef>
#include <memory>

#include <kscout/backend.h>
#include <kscout/selector.h>

namespace kscout {

/// What a dispatcher does about a problem.
struct Solution {
  Choice choice;               ///< the config, and who chose it
  Backend* backend = nullptr;  ///< what executes it
};

/// Where a run takes place, and in whose memory.
struct RunOn {
  Stream stream = {};
  void* workspace = nullptr;  ///< as Launch::run wants it; null: the dispatcher's own, grown when needed
  std::size_t workspace_bytes = 0;  ///< at least Dispatcher::workspace_bytes(problem)
};

/// May be shared by threads: calls run one after the other.
class KSCOUT_API Dispatcher {
 public:
  /// Problems whose launches are kept ready; past it all are made anew.
  static constexpr std::size_t kReadyLaunches = 4096;

  /// `backend` must outlive the dispatcher.
  Dispatcher(Selector selector, Backend& backend);
  ~Dispatcher();
  Dispatcher(Dispatcher&&) noexcept;
  Dispatcher& operator=(Dispatcher&&) noexcept;

  /// What run() will use: the selector's best config that the backend accepts. A config that this machine
  /// cannot run (a model for another device) is passed over for the next one. Opens no device. Throws
  /// unsupported when no config can run the problem, invalid_argument for a bad problem.
  Solution get_solution(const GemmProblem& problem);

  /// Bytes that run() wants for this problem. Makes the launch ready, so that the next run() of the problem
  /// only runs. Throws what get_solution and Backend::prepare throw.
  std::size_t workspace_bytes(const GemmProblem& problem);

  /// Computes C with get_solution(problem). With a workspace and after workspace_bytes(problem) it allocates
  /// nothing and waits for nothing. A kernel that itself refuses the problem when it is made ready is passed
  /// over for the next one. Throws what workspace_bytes throws, and invalid_argument when beta != 0 although
  /// the problem does not accumulate or when the workspace is too small.
  Solution run(const GemmProblem& problem, const GemmBuffers& buffers, const RunOn& on = {});

  /// Computes C with this config. Throws unsupported, with the rule or reason, when it cannot take the
  /// problem.
  void run_explicit(const GemmProblem& problem, const KernelConfig& config, const GemmBuffers& buffers,
                    const RunOn& on = {});

  const Selector& selector() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kscout
