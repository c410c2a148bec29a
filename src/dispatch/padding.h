#pragma once
/// \file
/// Converts problems to forms that more kernels take: larger sizes, packed operands, one batch item at a
/// time, images in another layout.
///
///     for (const ExecutionForm& form : padded_forms(problem, memory)) ...  // cheapest first
///     auto launch = padded_launch(problem, form, backend.prepare(form.problem, config), backend.memory());
#include <cstddef>
#include <memory>
#include <unordered_map>
#include <vector>

#include <kscout/backend.h>
#include <kscout/dispatcher.h>

namespace kscout {

/// The unchanged problem.
ExecutionForm direct_form(ProblemRef problem);

/// Other forms of the problem for operands in `memory`, cheapest first by (calls, products computed, bytes
/// copied). Empty for element types of less than a byte, because their lines may begin inside a byte.
///
/// GEMM: each choice of m, n, k rounded up to multiples of 2 to 256, once with only the copied operands
/// packed and once with every operand packed; and all of these for one batch item at a time.
///
/// Convolution: c/g and k/g rounded up to multiples of 2 to 256, each alone and together; in the CPU's
/// memory, all of these and the unpadded problem with images in the other layout (channels last or first).
std::vector<ExecutionForm> padded_forms(ProblemRef problem, MemoryKind memory = MemoryKind::host);

/// Copies an operand between the caller's memory and the workspace, in `repeats` calls that advance both
/// places by a step (bytes).
struct OperandCopy {
  MatrixCopy copy = {};
  std::int64_t element_bytes = 0;  ///< not 0: Memory::transpose
  std::int64_t repeats = 1, from_step = 0, to_step = 0;
};

/// An operand of a padded launch.
struct CopiedOperand {
  bool copied = false;
  OperandCopy in = {}, back = {};
  std::int64_t bytes = 0;       ///< of the copy
  std::int64_t item_bytes = 0;  ///< distance between the caller's operands of two calls
};
struct CopiedOperands {
  CopiedOperand a = {}, b = {}, c = {}, bias = {};
};

/// Runs `inner`, which computes form.problem, for `problem`. The workspace begins with zero-padded copies of
/// the operands that the form copies; the inner launch's workspace follows.
class PaddedLaunch final : public Launch {
 public:
  PaddedLaunch(ProblemRef problem, const ExecutionForm& form, std::unique_ptr<Launch> inner, Memory& memory);

  std::size_t workspace_bytes() const noexcept override;
  void run(const GemmBuffers& buffers, void* workspace, Stream stream = {}) override;
  /// Of a prepacked filter: its padded copy, where the form copies it; then what `inner` packs.
  std::size_t packed_bytes() const noexcept override;
  void pack(const void* b, void* packed, Stream stream = {}) override;
  /// Runs only the copies, to measure their cost.
  void run_copies(const GemmBuffers& buffers, void* workspace, Stream stream = {});

 private:
  void run_all(const GemmBuffers& buffers, void* workspace, Stream stream, bool compute);
  void move(const OperandCopy& how, const void* from, void* to, Stream stream);

  std::int64_t packed_copy_ = 0;  ///< bytes of a prepacked filter's padded copy
  CopiedOperands operands_;
  std::int64_t calls_;
  std::unique_ptr<Launch> inner_;
  Memory& memory_;
};

/// Returns `inner` itself for a form without copies.
std::unique_ptr<Launch> padded_launch(ProblemRef problem, const ExecutionForm& form,
                                      std::unique_ptr<Launch> inner, Memory& memory);

// ---- Holds the dispatcher's own workspaces: grown and reused, never shrunk.

/// Memory of one kind, released by the destructor.
class Workspace {
 public:
  Workspace() = default;
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace() { grow(nullptr, 0); }

  /// Memory of at least `bytes` with unspecified contents; earlier pointers may become invalid. Throws
  /// device_failure.
  void* at_least(Memory& memory, std::size_t bytes) {
    if (bytes > size_) grow(&memory, bytes);
    return bytes_;
  }

 private:
  void grow(Memory* memory, std::size_t bytes) {
    if (bytes_) memory_->release(bytes_);
    bytes_ = nullptr;
    size_ = 0;
    memory_ = memory;
    if (!memory) return;
    bytes_ = memory->allocate(bytes);
    size_ = bytes;
  }

  Memory* memory_ = nullptr;
  void* bytes_ = nullptr;
  std::size_t size_ = 0;
};

/// One workspace per kind of memory.
class Workspaces {
 public:
  void* at_least(Memory& memory, std::size_t bytes) { return by_memory_[&memory].at_least(memory, bytes); }

 private:
  std::unordered_map<Memory*, Workspace> by_memory_;
};

}  // namespace kscout
