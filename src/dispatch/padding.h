#pragma once
/// \file
/// Converts problems to forms that more kernels take: larger sizes, packed operands, one batch item at a
/// time.
///
///     for (const ExecutionForm& form : padded_forms(problem)) ...          // cheapest first
///     auto launch = padded_launch(problem, form, backend.prepare(form.problem, config), backend.memory());
#include <cstddef>
#include <memory>
#include <unordered_map>
#include <vector>

#include <kscout/backend.h>
#include <kscout/dispatcher.h>

namespace kscout {

/// The unchanged problem.
ExecutionForm direct_form(const GemmProblem& problem);

/// Other forms of the problem, cheapest first by (calls, products computed, bytes copied): each choice of m,
/// n, k rounded up to multiples of 2 to 256, once with only the copied operands packed and once with every
/// operand packed; and all of these for one batch item at a time. Empty for element types of less than a
/// byte, because their lines may begin inside a byte.
std::vector<ExecutionForm> padded_forms(const GemmProblem& problem);

/// Runs `inner`, which computes form.problem, for `problem`. The workspace begins with zero-padded copies of
/// the operands that the form copies; the inner launch's workspace follows.
class PaddedLaunch final : public Launch {
 public:
  PaddedLaunch(const GemmProblem& problem, const ExecutionForm& form, std::unique_ptr<Launch> inner,
               Memory& memory);

  std::size_t workspace_bytes() const noexcept override;
  void run(const GemmBuffers& buffers, void* workspace, Stream stream = {}) override;
  /// Runs only the copies, to measure the cost of padding.
  void run_copies(const GemmBuffers& buffers, void* workspace, Stream stream = {});

 private:
  /// A copied operand: the copy from the caller's memory, and its position in the workspace.
  struct Part {
    bool copied = false;
    MatrixCopy in = {};
    std::size_t offset = 0;
    std::int64_t item_bytes = 0;  ///< distance between the operands of two calls
  };
  void run_all(const GemmBuffers& buffers, void* workspace, Stream stream, bool compute);

  Part a_, b_, c_, bias_;
  std::size_t copies_bytes_ = 0;
  std::int64_t calls_;
  std::unique_ptr<Launch> inner_;
  Memory& memory_;
};

/// Returns `inner` itself for a direct form.
std::unique_ptr<Launch> padded_launch(const GemmProblem& problem, const ExecutionForm& form,
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
