#pragma once
/// \file
/// Problems in forms that other kernels take: larger sizes, packed operands, one batch item at a time.
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

/// The problem as it is.
ExecutionForm direct_form(const GemmProblem& problem);

/// Other forms of the problem, cheapest first by (calls, products computed, bytes copied): each choice of
/// m, n, k rounded up to multiples of 2 to 256, the copied operands packed; the same with every operand
/// packed; the same for one batch item at a time. None for element types of less than a byte, whose lines do
/// not begin at bytes.
std::vector<ExecutionForm> padded_forms(const GemmProblem& problem);

/// Runs `inner`, which computes form.problem, for `problem`: zero-padded copies of the operands that the form
/// copies lie before the inner launch's workspace.
class PaddedLaunch final : public Launch {
 public:
  PaddedLaunch(const GemmProblem& problem, const ExecutionForm& form, std::unique_ptr<Launch> inner,
               Memory& memory);

  std::size_t workspace_bytes() const noexcept override;
  void run(const GemmBuffers& buffers, void* workspace, Stream stream = {}) override;
  /// Only the copies of a run: what padding costs.
  void run_copies(const GemmBuffers& buffers, void* workspace, Stream stream = {});

 private:
  /// An operand that is copied: from where it is to its place in the workspace.
  struct Part {
    bool copied = false;
    MatrixCopy in = {};
    std::size_t offset = 0;
    std::int64_t item_bytes = 0;  ///< from one call's operand to the next one's
  };
  void run_all(const GemmBuffers& buffers, void* workspace, Stream stream, bool compute);

  Part a_, b_, c_, bias_;
  std::size_t copies_bytes_ = 0;
  std::int64_t calls_;
  std::unique_ptr<Launch> inner_;
  Memory& memory_;
};

/// inner itself for a direct form.
std::unique_ptr<Launch> padded_launch(const GemmProblem& problem, const ExecutionForm& form,
                                      std::unique_ptr<Launch> inner, Memory& memory);

// ---- Workspaces that the dispatcher owns: grown and reused, never shrunk.

/// Bytes of one kind of memory, given back when they go.
class Workspace {
 public:
  Workspace() = default;
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace() { grow(nullptr, 0); }

  /// At least `bytes` of unspecified contents; earlier pointers may become invalid. Throws device_failure.
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
