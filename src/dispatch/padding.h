#pragma once
/// \file
/// Converts problems to forms that more kernels take: larger sizes, packed operands, one batch item at a
/// time, images in another layout.
///
///     for (const ExecutionForm& form : padded_forms(problem, memory)) ...  // cheapest first
///     auto launch = padded_launch(problem, form, backend.prepare(form.problem, config), backend.memory());
#include <cstddef>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include <kscout/backend.h>
#include <kscout/dispatcher.h>
#include <kscout/error.h>

#include "op/forms.h"

namespace kscout {

/// The unchanged problem.
ExecutionForm direct_form(ProblemRef problem);

/// Other forms of the problem for operands in `memory`, cheapest first by (calls, products computed, bytes
/// copied). Empty for element types of less than a byte, because their lines may begin inside a byte.
std::vector<ExecutionForm> padded_forms(ProblemRef problem, MemoryKind memory = MemoryKind::host);

/// Forms with aligned lines, which may be faster than the problem itself although kernels take it. Empty for
/// element types of less than a byte, and where all lines are aligned.
std::vector<AlignedForm> aligned_forms(ProblemRef problem);

/// Predicted microseconds that the copies of a form take on a GPU: 0 without copies, NaN where the device's
/// memory bandwidth is not known.
double predicted_copies_us(const ExecutionForm& form, const Device& device);

/// The form with the packable operand copied once for many runs; the same form where that operand is not
/// copied, or differs from call to call.
ExecutionForm with_packed_operand(ProblemRef problem, ExecutionForm form);

/// Bytes of workspace for the copies of a form.
std::size_t copies_bytes(ProblemRef problem, const ExecutionForm& form);

/// A launch failed after it had added to a part of a result that it accumulates: nothing can compute the
/// result from what the operands hold now.
class PartialResult : public Error {
 public:
  using Error::Error;
};

/// Runs `inner`, which computes form.problem, for `problem`. The workspace begins with zero-padded copies of
/// the operands that the form copies; the inner launch's workspace follows.
class PaddedLaunch final : public Launch {
 public:
  PaddedLaunch(ProblemRef problem, const ExecutionForm& form, std::unique_ptr<Launch> inner, Memory& memory);

  std::size_t workspace_bytes() const noexcept override;
  void run(const Buffers& buffers, void* workspace, Stream stream = {}) override;
  /// Of a prepacked filter, or of B that the form packs: its padded copy, where the form copies it; then what
  /// `inner` packs.
  std::size_t packed_bytes() const noexcept override;
  void pack(const void* b, void* packed, Stream stream = {}) override;
  /// Runs only the copies, to measure their cost.
  void run_copies(const Buffers& buffers, void* workspace, Stream stream = {});

 private:
  void run_all(const Buffers& buffers, void* workspace, Stream stream, bool compute);
  void run_item(const Buffers& buffers, Buffers& inner, std::span<std::byte* const> copies, std::byte* place,
                std::int64_t call, Stream stream, bool compute);
  void move(const OperandCopy& how, const void* from, void* to, Stream stream);

  std::int64_t packed_copy_ = 0;  ///< bytes of the packed operand's padded copy
  CopiedOperands operands_;
  std::size_t result_, packable_;  ///< positions of the result and of the operand that is packed once
  std::int64_t calls_;
  std::unique_ptr<Launch> inner_;
  Memory& memory_;
};

/// Runs only the copies of a padded launch, to time them. Takes the padded launch's workspace.
class CopiesLaunch final : public Launch {
 public:
  explicit CopiesLaunch(PaddedLaunch& padded) : padded_(padded) {}
  std::size_t workspace_bytes() const noexcept override { return padded_.workspace_bytes(); }
  void run(const Buffers& buffers, void* workspace, Stream stream = {}) override {
    padded_.run_copies(buffers, workspace, stream);
  }

 private:
  PaddedLaunch& padded_;
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
