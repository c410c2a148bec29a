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
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <kscout/any_problem.h>
#include <kscout/config.h>
#include <kscout/device.h>
#include <kscout/memory_space.h>

namespace kscout {

struct Family;

/// Operands of the sizes that operand_elements(problem) tells, all of them in one memory: `space` says which.
/// C = alpha * A * B + beta * C; beta != 0 only when the problem accumulates. C is not read when beta is 0.
/// C shares no element with another operand; A and B may be the same.
/// Of a convolution, A, B, C are the tensors that signature_of(problem) names so: ConvTensors sorts them.
struct GemmBuffers {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  double alpha = 1;
  double beta = 0;
  const void* bias = nullptr;     ///< n elements, when the epilogue adds one
  const void* scale_a = nullptr;  ///< 8-bit floats: one fp32 by which A is multiplied; null = 1
  const void* scale_b = nullptr;
  MemorySpace space = {};  ///< where they are; a backend that cannot reach it refuses them
};

/// The three tensors of a convolution: images packed in the problem's layout, the filter as k [z] y x c/g.
/// The one that the direction computes is written, the others are only read.
struct ConvTensors {
  void* in = nullptr;      ///< input image, or its gradient
  void* wei = nullptr;     ///< filter, or its gradient
  void* out = nullptr;     ///< output image, or its gradient
  MemorySpace space = {};  ///< where all three are
};
/// The tensors as the product's operands (see signature_of).
KSCOUT_API GemmBuffers operands_of(Op direction, const ConvTensors& tensors) noexcept;

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
  /// invalid_argument when the buffers are in memory that its backend does not reach, device_failure.
  virtual void run(const GemmBuffers& buffers, void* workspace, Stream stream = {}) = 0;
};

/// Lines of bytes copied between places of different strides, `items` times. What is left of `to` up to
/// to_lines lines of to_line_bytes becomes zero; equal to lines and line_bytes, nothing does.
struct MatrixCopy {
  const void* from = nullptr;
  void* to = nullptr;
  std::int64_t lines = 0, line_bytes = 0;
  std::int64_t to_lines = 0, to_line_bytes = 0;
  std::int64_t from_pitch = 0, to_pitch = 0;  ///< bytes from line to line
  std::int64_t items = 1;
  std::int64_t from_item = 0, to_item = 0;  ///< bytes from item to item
};

/// The memory in which a backend's kernels find their operands. Thread-safe.
class KSCOUT_API Memory {
 public:
  virtual ~Memory() = default;
  virtual MemorySpace space() const noexcept { return {}; }
  /// Aligned as Launch::run wants a workspace. Throws device_failure when there is no more.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* memory) noexcept = 0;
  /// In the order of the stream; allocates nothing and waits for nothing. Throws device_failure.
  virtual void copy(const MatrixCopy& copy, Stream stream) = 0;
  /// Every byte becomes `value`, in the order of the stream. Throws device_failure.
  virtual void set(void* to, std::byte value, std::size_t bytes, Stream stream) = 0;
  /// From and to the program's own memory; both wait until the stream has come that far and the bytes are
  /// there. Throw device_failure.
  virtual void read(void* to_host, const void* from, std::size_t bytes, Stream stream) = 0;
  virtual void write(void* to, const void* from_host, std::size_t bytes, Stream stream) = 0;
};
/// The memory of the CPU.
KSCOUT_API Memory& host_memory() noexcept;

class KSCOUT_API Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const noexcept = 0;
  /// Whose configs family() lists.
  virtual std::string_view provider() const noexcept = 0;
  /// Whether it executes configs of this provider: its own, and joint ones that it is a member of.
  virtual bool executes(std::string_view provider) const noexcept { return provider == this->provider(); }
  /// Why a config of those cannot run here whatever the sizes (its kernel library or its release is not
  /// here); empty when it can. refusal() says so too. Opens no device.
  virtual std::string absence(const Signature& /*signature*/, const KernelConfig& /*config*/) { return {}; }
  /// The configs that it can execute for a signature. `rules` names a rule set where rules enumerate them.
  /// Throws unsupported when there are none.
  virtual Family family(const Signature& signature, std::string_view rules) = 0;
  /// Where operands and workspaces are.
  virtual Memory& memory() { return host_memory(); }
  /// Which memory that is; opens no device.
  virtual MemorySpace space() { return memory().space(); }
  /// Facts of the device that run() uses.
  virtual const Device& device() = 0;
  /// Versions of driver and libraries behind it, by name: what a measurement's provenance keeps.
  virtual std::map<std::string, std::string> versions() { return {}; }
  /// Why this config cannot run this problem here (rule or missing instruction set); empty when it can.
  virtual std::string refusal(ProblemRef problem, const KernelConfig& config) = 0;
  /// Opens the device when that has not happened yet. Throws unsupported with refusal()'s text or what the
  /// kernel itself says against the problem, invalid_argument for a bad problem, device_failure.
  virtual std::unique_ptr<Launch> prepare(ProblemRef problem, const KernelConfig& config) = 0;
};

/// Throws invalid_argument, naming both memories and the remedy, unless `given` is what a backend reaches.
KSCOUT_API void check_reach(std::string_view backend, const MemorySpace& reached, const MemorySpace& given);

/// "cpu", "cuda" or "hip"; throws invalid_argument naming the nearest backend, unsupported when it is not on
/// this machine.
KSCOUT_API Backend& backend(std::string_view name);
/// Those that this build and machine have.
KSCOUT_API std::span<const std::string_view> backend_names() noexcept;

}  // namespace kscout
