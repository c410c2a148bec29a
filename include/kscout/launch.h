#pragma once
/// \file
/// Defines a prepared kernel, its operands and the memory that they are in.
///
///     std::vector<std::byte> workspace(launch.workspace_bytes());
///     launch.run({.a = a, .b = b, .c = c}, workspace.data());   // may be repeated
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <kscout/any_problem.h>
#include <kscout/limits.h>
#include <kscout/memory_space.h>

namespace kscout {

/// The operands of a call, all in the memory that `space` names: one pointer per operand of the problem, by
/// its position (an operation lists its operands). The result is one of them; kernels only read the others.
struct Buffers {
  static constexpr std::size_t max_operands = 8;

  std::array<const void*, max_operands> operand{};
  double alpha = 1;
  double beta = 0;
  /// The operand that a caller may pack once for many calls (B of a GEMM, the filter of a convolution) as
  /// Launch::pack wrote it: read in its place where Launch::packed_bytes() is above 0.
  const void* packed = nullptr;
  MemorySpace space = {};  ///< memory of all operands; a backend that cannot reach it refuses them
};

/// Operands of C = alpha * A * B + beta * C, with the sizes of operand_elements(problem), all in the memory
/// that `space` names. beta != 0 is allowed only when the problem accumulates; C is not read when beta is 0.
/// C shares no element with another operand; A and B may be the same. For a convolution,
/// signature_of(problem) says which tensor is A, B and C; ConvTensors names them by tensor.
struct GemmBuffers {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  double alpha = 1;
  double beta = 0;
  const void* bias = nullptr;     ///< n elements, when the epilogue adds one
  const void* scale_a = nullptr;  ///< 8-bit floats: pointer to one fp32 factor of A; null = 1
  const void* scale_b = nullptr;
  const void* packed_b = nullptr;  ///< Buffers::packed
  MemorySpace space = {};          ///< Buffers::space

  operator Buffers() const noexcept {  // NOLINT: the same operands
    return {.operand = {a, b, c, bias, scale_a, scale_b},
            .alpha = alpha,
            .beta = beta,
            .packed = packed_b,
            .space = space};
  }
  static GemmBuffers of(const Buffers& buffers) noexcept {
    const auto& at = buffers.operand;
    return {.a = at[0],
            .b = at[1],
            .c = const_cast<void*>(at[2]),
            .alpha = buffers.alpha,
            .beta = buffers.beta,
            .bias = at[3],
            .scale_a = at[4],
            .scale_b = at[5],
            .packed_b = buffers.packed,
            .space = buffers.space};
  }
};

/// The three tensors of a convolution: images packed in the problem's layout, the filter as k [z] y x c/g.
/// The kernel writes the tensor that the direction computes and only reads the others.
struct ConvTensors {
  void* in = nullptr;          ///< input image, or its gradient
  void* wei = nullptr;         ///< filter, or its gradient
  void* out = nullptr;         ///< output image, or its gradient
  MemorySpace space = {};      ///< memory of all
  const void* bias = nullptr;  ///< k elements of the output's type, when the epilogue adds a bias
};
/// Maps the tensors to the product's operands (see signature_of).
GemmBuffers operands_of(Op direction, const ConvTensors& tensors) noexcept;

/// A queue of work on a device: a cudaStream_t or a hipStream_t; null is the device's default stream. Backend
/// cpu ignores it and runs in the calling thread.
struct Stream {
  void* handle = nullptr;
};

/// One config prepared for one problem.
class Launch {
 public:
  virtual ~Launch() = default;
  virtual std::size_t workspace_bytes() const noexcept = 0;
  /// Enqueues the computation of the result; on backend cpu, returns when it is complete. `workspace` lies in
  /// the device's memory, is aligned to 64 bytes (256 on a GPU) and has workspace_bytes(). The launch uses it
  /// until the stream has executed the call. Allocates nothing and waits for nothing, so a stream that is
  /// being captured into a graph is allowed. One Launch must not run in two threads at once. Throws
  /// invalid_argument when the backend cannot reach the buffers' memory, device_failure.
  virtual void run(const Buffers& buffers, void* workspace, Stream stream = {}) = 0;
  /// Bytes of the packed filter that run() reads from Buffers::packed; 0: run() reads B as it is. Above
  /// 0 only for a problem whose filter is packed once (ConvProblem::prepacked).
  virtual std::size_t packed_bytes() const noexcept { return 0; }
  /// Enqueues the packing of B, once for any number of runs of this launch; on backend cpu, returns when
  /// `packed` is complete. `packed` is aligned like a workspace and has packed_bytes(). Allocates nothing.
  virtual void pack(const void* /*b*/, void* /*packed*/, Stream /*stream*/ = {}) {}
  /// Microseconds that building this launch took, where a backend keeps what it built for later launches (a
  /// plan of cuDNN, which may be compiled); 0: nothing is kept.
  virtual double setup_us() const noexcept { return 0; }
};

/// Copies `items` matrices of `lines` lines between places of different strides. Fills `to` with zeros up to
/// to_lines lines of to_line_bytes; where these equal lines and line_bytes, nothing is filled.
struct MatrixCopy {
  const void* from = nullptr;
  void* to = nullptr;
  std::int64_t lines = 0, line_bytes = 0;
  std::int64_t to_lines = 0, to_line_bytes = 0;
  std::int64_t from_pitch = 0, to_pitch = 0;  ///< bytes from line to line
  std::int64_t items = 1;
  std::int64_t from_item = 0, to_item = 0;  ///< bytes from item to item
};

/// The memory in which a backend's kernels expect their operands. Thread-safe.
class Memory {
 public:
  virtual ~Memory() = default;
  virtual MemorySpace space() const noexcept { return {}; }
  /// Allocates memory that is aligned as Launch::run requires. Throws device_failure when no memory is left.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* memory) noexcept = 0;
  /// Copies in stream order; allocates nothing and waits for nothing. Throws device_failure.
  virtual void copy(const MatrixCopy& copy, Stream stream) = 0;
  /// copy() of transposed matrices: element j of line i of `to` is element i of line j of `from`, zero where
  /// `from` has no such element. `lines` and `line_bytes` describe the copied part of `from`. Elements have
  /// 1, 2, 4 or 8 bytes. Throws unsupported except in the memory of the CPU.
  virtual void transpose(const MatrixCopy& copy, std::int64_t element_bytes, Stream stream);
  /// Sets every byte to `value`, in stream order. Throws device_failure.
  virtual void set(void* to, std::byte value, std::size_t bytes, Stream stream) = 0;
  /// read() and write() copy from and to host memory. Both wait until the stream has reached the copy and the
  /// copy is complete. Both throw device_failure.
  virtual void read(void* to_host, const void* from, std::size_t bytes, Stream stream) = 0;
  virtual void write(void* to, const void* from_host, std::size_t bytes, Stream stream) = 0;
};
/// The memory of the CPU.
Memory& host_memory() noexcept;

/// The problem as the kernel receives it. A problem that no config takes directly (sizes, alignment, layout)
/// runs in another form: operands are copied into zero-filled buffers of larger sizes or another layout, and
/// the result is copied back. On a GPU, so does a GEMM whose rows are no multiples of 16 bytes, where the
/// copies are predicted to be worth their time.
struct ExecutionForm {
  Problem problem = {};    ///< what the kernel computes in one call
  std::int64_t calls = 1;  ///< more than 1: one call per batch item
  /// Which operands are copied, by position in Buffers; the bias, one line, does not count.
  std::array<bool, Buffers::max_operands> copied{};
  double copy_bytes = 0;  ///< bytes that the copies of one run read and write
  bool packs = false;     ///< the operand that is packed once is copied then, not by each run
  /// Whether operands are copied.
  bool padded() const noexcept { return copied != decltype(copied){}; }
};

/// Throws unsupported, naming both numbers, when a launch needs more workspace than the limits allow.
void check_workspace(const Launch& launch, const Limits& limits);

/// Throws invalid_argument, naming both memories and the remedy, unless a backend that reaches memory
/// `reached` also reaches memory `given`.
void check_reach(std::string_view backend, const MemorySpace& reached, const MemorySpace& given);

}  // namespace kscout
