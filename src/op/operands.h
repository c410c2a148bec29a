#pragma once
/// \file
/// Makes the operands of a problem for measuring and verifying, once per problem for all configs. For a
/// convolution, A, B and C are the tensors that signature_of(problem) assigns to them.
///
///     GemmOperands operands;                    // in the CPU's memory; operands(tools): in a device's
///     operands.make(problem, seed);
///     operands.reset_c();                       // the result holds NaNs, or its initial values when accumulating
///     launch->run(operands.buffers(), workspace);
///     if (auto text = operands.damage(); !text.empty()) ...   // a write outside of C
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

#include <kscout/any_problem.h>
#include <kscout/launch.h>

#include "instruments/instruments.h"
#include "op/operation.h"

namespace kscout {

// ---- Allocates memory that detects writes past its ends.
//
//     GuardedBuffer c(1);
//     c.resize(bytes);
//     kernel(c.data());
//     if (auto damage = c.damage(); !damage.empty()) ...  // "16 bytes past its end"

/// A payload between two guard zones of kGuardBytes with a known pattern, aligned as the device requires. The
/// start is shifted by `stagger` times Instruments::stagger() within its page, so that several buffers do not
/// compete for the same sets of the first-level cache. data() points into the memory of the instruments'
/// device. Memory grows and is reused; not copyable.
class GuardedBuffer {
 public:
  static constexpr std::size_t kGuardBytes = 4096;

  explicit GuardedBuffer(int stagger = 0, Instruments& device = host_instruments())
      : device_(device), stagger_(static_cast<std::size_t>(stagger) * device.stagger()) {}
  ~GuardedBuffer();
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;

  /// Sets the payload to `bytes` and writes the guard pattern; contents are unspecified afterwards. The
  /// payload begins `offset` bytes after an aligned address. Throws device_failure when the system lacks
  /// memory.
  void resize(std::size_t bytes, std::size_t offset = 0);
  /// resize() for a workspace. Throws unsupported when it needs more than operands leave of the memory.
  void resize_workspace(std::size_t bytes);
  /// Writes the guard pattern again.
  void repair() { resize(size_, offset_); }
  /// Fills the payload with 0xFF: a NaN in every floating type.
  void poison();
  /// Makes any write to the buffer end the process until resize, where the device can do that.
  void make_read_only();

  std::byte* data() noexcept { return payload_; }
  const std::byte* data() const noexcept { return payload_; }
  std::size_t size() const noexcept { return size_; }
  /// The changed guard bytes, in words; empty when none changed.
  std::string damage() const;

 private:
  void release() noexcept;

  Instruments& device_;
  std::size_t stagger_;
  std::byte* mapping_ = nullptr;
  std::size_t mapped_ = 0;
  std::byte* payload_ = nullptr;
  std::size_t size_ = 0, offset_ = 0;
  bool read_only_ = false;
};

/// How operands differ from those of an ordinary call.
struct OperandVariant {
  double alpha = 1;
  bool unaligned = false;  ///< A, B, C and bias begin one element after an aligned address
};

class GemmOperands {
 public:
  explicit GemmOperands(Instruments& device = host_instruments()) : device_(device), initial_(0, device) {
    for (std::size_t at = 0; at < Buffers::max_operands; ++at)
      all_.emplace_back(static_cast<int>(at), device);
  }

  /// Fills the operands with values uniform in [-1, 1] (whole numbers -8 to 8 for integer types) that depend
  /// on the seed only, and makes them read-only, except the result. Gaps between lines (leading dimension >
  /// packed) become NaN. Fills the initial C likewise when the problem accumulates; leaves out optional
  /// operands. Throws unsupported for element types that cannot be generated, and when the operands, with
  /// what a reference takes, need more than Instruments::memory_bytes().
  void make(ProblemRef problem, std::uint64_t seed, const OperandVariant& variant = {});
  /// Call it before a verified run: sets every element of C to NaN, or to its initial value when the problem
  /// accumulates.
  void reset_c();

  /// Call it after damage(): restores the guards, so that the next config starts clean. reset_c() restores
  /// the rest.
  void repair();

  Buffers buffers() noexcept;
  Instruments& device() const noexcept { return device_; }
  /// The operand at a position of Buffers, in the device's memory; null where the problem has none.
  const void* operand(std::size_t at) const noexcept { return tensor_at(at) ? all_[at].data() : nullptr; }
  /// The operand that the kernel writes.
  const void* result() const noexcept { return all_[result_].data(); }
  /// The operand that a caller may pack once; null where the problem has none.
  const void* packable() const noexcept { return operand(packable_); }
  // Of a GEMM or a convolution, which have these operands in common (signature_of).
  const void* a() const noexcept { return operand(kA); }
  const void* b() const noexcept { return operand(kB); }
  const void* c() const noexcept { return operand(kC); }
  /// C before the run; null unless the problem accumulates.
  const void* initial_c() const noexcept { return accumulate_ ? initial_.data() : nullptr; }
  double alpha() const noexcept { return alpha_; }
  double beta() const noexcept { return accumulate_ ? 0.5 : 0.0; }

  /// Describes writes outside the elements of C: into its guard zones and the gaps between its lines.
  std::string damage() const;
  /// The same of the operands, a launch's workspace and its packed filter.
  std::string damage(const GuardedBuffer& workspace, const GuardedBuffer& packed) const;
  /// Removes the operands and this memory from all caches.
  void evict_from_caches(const Instruments::Region& more = {}) const;

 private:
  /// The problem's operand at a position; null where it has none.
  const Tensor* tensor_at(std::size_t at) const noexcept;

  Instruments& device_;
  OperandList tensors_ = {};
  std::size_t result_ = 0, packable_ = 0;  ///< positions
  double alpha_ = 1;
  bool accumulate_ = false;
  std::deque<GuardedBuffer> all_;  ///< by position
  GuardedBuffer initial_;          ///< what the result holds before the run
};

}  // namespace kscout
