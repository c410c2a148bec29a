#pragma once
/// \file
/// What executes configs on a kind of device.
///
///     kscout::Backend& cpu = kscout::backend("cpu");
///     auto launch = cpu.prepare(problem, config);               // all checks and look-ups happen here
///     std::vector<std::byte> workspace(launch->workspace_bytes());
///     launch->run({.a = a, .b = b, .c = c}, workspace.data());  // may be repeated
///
/// Describing kernels is a provider's work and needs no backend.
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <kscout/config.h>
#include <kscout/device.h>
#include <kscout/problem.h>

namespace kscout {

/// Operands in the memory of the backend's device, of the sizes operand_elements(problem) tells.
/// C = alpha * A * B + beta * C; beta != 0 only when the problem accumulates. C is not read when beta is 0.
struct GemmBuffers {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  double alpha = 1;
  double beta = 0;
  const void* bias = nullptr;  ///< n elements, when the epilogue adds one
};

/// One config made ready for one problem.
class KSCOUT_API Launch {
 public:
  virtual ~Launch() = default;
  virtual std::size_t workspace_bytes() const noexcept = 0;
  /// Computes C. `workspace` is aligned to 64 bytes and holds workspace_bytes(). Returns when C is complete.
  /// Allocates nothing. One Launch must not run in two threads at once.
  virtual void run(const GemmBuffers& buffers, void* workspace) = 0;
};

class KSCOUT_API Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const noexcept = 0;
  /// Facts of the device that run() uses.
  virtual const Device& device() = 0;
  /// Why this config cannot run this problem here (rule or missing instruction set); empty when it can.
  virtual std::string refusal(const GemmProblem& problem, const KernelConfig& config) = 0;
  /// Throws unsupported with refusal()'s text, invalid_argument for a bad problem.
  virtual std::unique_ptr<Launch> prepare(const GemmProblem& problem, const KernelConfig& config) = 0;
};

/// "cpu"; throws invalid_argument naming the nearest backend, unsupported when it is not on this machine.
KSCOUT_API Backend& backend(std::string_view name);

}  // namespace kscout
