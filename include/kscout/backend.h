#pragma once
/// \file
/// What executes configs on a kind of device.
///
///     kscout::Backend& cpu = kscout::backend("cpu");
///     auto launch = cpu.prepare(problem, config);               // all checks and look-ups happen here
///     std::vector<std::byte> workspace(launch->workspace_bytes());
///     launch->run({.a = a, .b = b, .c = c}, workspace.data());  // may be repeated
///
/// Describing kernels is a provider's work and needs no backend. A backend opens its device in the first
/// prepare(): name, device facts and refusals come from files, presets and queries that need no open device,
/// so that a program may list and select in a process that forks, or in one that never runs anything.
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

/// A queue of work on a device: a cudaStream_t or a hipStream_t; null is the device's own queue. The queue of
/// backend cpu is the calling thread, whatever is given.
struct Stream {
  void* handle = nullptr;
};

/// One config made ready for one problem.
class KSCOUT_API Launch {
 public:
  virtual ~Launch() = default;
  virtual std::size_t workspace_bytes() const noexcept = 0;
  /// Puts the computation of C into the stream; on backend cpu, returns when C is complete. `workspace` is in
  /// the device's memory, aligned to 64 bytes (256 on a GPU), holds workspace_bytes() and belongs to the
  /// launch until the stream has passed it. Allocates nothing and waits for nothing, so a stream that is
  /// being captured into a graph may be given. One Launch must not run in two threads at once. Throws
  /// device_failure.
  virtual void run(const GemmBuffers& buffers, void* workspace, Stream stream = {}) = 0;
};

class KSCOUT_API Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const noexcept = 0;
  /// Facts of the device that run() uses.
  virtual const Device& device() = 0;
  /// Why this config cannot run this problem here (rule or missing instruction set); empty when it can.
  virtual std::string refusal(const GemmProblem& problem, const KernelConfig& config) = 0;
  /// Opens the device when that has not happened yet. Throws unsupported with refusal()'s text or what the
  /// kernel itself says against the problem, invalid_argument for a bad problem, device_failure.
  virtual std::unique_ptr<Launch> prepare(const GemmProblem& problem, const KernelConfig& config) = 0;
};

/// "cpu"; throws invalid_argument naming the nearest backend, unsupported when it is not on this machine.
KSCOUT_API Backend& backend(std::string_view name);

}  // namespace kscout
