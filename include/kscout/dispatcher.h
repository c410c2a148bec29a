#pragma once
/// \file
/// Problem and buffers in, result out: selects a config, makes it ready once, runs it.
///
///     kscout::Backend& cpu = kscout::backend("cpu");
///     auto selector = kscout::Selector::find(kscout::Op::gemm, kscout::DType::fp32, {.device = cpu.device()});
///     kscout::Dispatcher dispatcher(std::move(selector), cpu);
///     dispatcher.run(kscout::make_gemm(16, 4096, 4096), {.a = a, .b = b, .c = c});   // selects, then runs
///     dispatcher.run(kscout::make_gemm(16, 4096, 4096), {.a = a, .b = b, .c = c});   // runs what is ready
#include <cstddef>
#include <memory>

#include <kscout/backend.h>
#include <kscout/selector.h>

namespace kscout {

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
  /// cannot run (a model for another device) is passed over for the next one. Throws unsupported when no
  /// config can run the problem, invalid_argument for a bad problem.
  Choice choose(const GemmProblem& problem);

  /// Computes C with choose(problem). Throws what choose throws, and invalid_argument when beta != 0 although
  /// the problem does not accumulate.
  Choice run(const GemmProblem& problem, const GemmBuffers& buffers);

  /// Computes C with this config. Throws unsupported, naming the rule, when it cannot take the problem.
  void run_explicit(const GemmProblem& problem, const KernelConfig& config, const GemmBuffers& buffers);

  const Selector& selector() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kscout
