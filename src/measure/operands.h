#pragma once
/// \file
/// Operands of a problem for measuring and verifying: made once per problem, used by every config. Those of a
/// convolution are the tensors that signature_of(problem) names A, B and C.
///
///     GemmOperands operands;                    // in the CPU's memory; operands(tools): in a device's
///     operands.make(problem, seed);
///     operands.reset_c();                       // C holds NaNs, or its initial values when accumulating
///     launch->run(operands.buffers(), workspace);
///     if (auto text = operands.damage(); !text.empty()) ...   // a write outside of C
#include <cstddef>
#include <cstdint>
#include <string>

#include <kscout/any_problem.h>
#include <kscout/backend.h>

#include "measure/instruments.h"

namespace kscout {

// ---- Memory that notices writes past its ends.
//
//     GuardedBuffer c(1);
//     c.resize(bytes);
//     kernel(c.data());
//     if (auto damage = c.damage(); !damage.empty()) ...  // "16 bytes past its end"

/// A payload between two painted zones of kGuardBytes. Aligned as the device wants it; `stagger` moves the
/// start by that many Instruments::stagger() within its page, so that several buffers do not compete for the
/// same sets of the first-level cache. Lies in the memory of the instruments' device, which data() points
/// into. Memory grows and is reused; not copyable.
class GuardedBuffer {
 public:
  static constexpr std::size_t kGuardBytes = 4096;

  explicit GuardedBuffer(int stagger = 0, Instruments& device = host_instruments())
      : device_(device), stagger_(static_cast<std::size_t>(stagger) * device.stagger()) {}
  ~GuardedBuffer();
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;

  /// Makes the payload `bytes` long and paints the guards; contents are unspecified afterwards. Throws
  /// device_failure when the system has no such memory.
  void resize(std::size_t bytes);
  /// Fills the payload with 0xFF: a NaN in every floating type.
  void poison();
  /// From now on (until resize) any write to the buffer ends the process, where the device can do that.
  void make_read_only();

  std::byte* data() noexcept { return payload_; }
  const std::byte* data() const noexcept { return payload_; }
  std::size_t size() const noexcept { return size_; }
  /// Where a guard changed, in words; empty when none did.
  std::string damage() const;

 private:
  void release() noexcept;

  Instruments& device_;
  std::size_t stagger_;
  std::byte* mapping_ = nullptr;
  std::size_t mapped_ = 0;
  std::byte* payload_ = nullptr;
  std::size_t size_ = 0;
  bool read_only_ = false;
};

class GemmOperands {
 public:
  explicit GemmOperands(Instruments& device = host_instruments())
      : device_(device),
        a_(0, device),
        b_(1, device),
        c_(2, device),
        initial_c_(0, device),
        bias_(3, device) {}

  /// Fills A and B with values uniform in [-1, 1] (whole numbers -8 to 8 for integer types), a function of
  /// the seed only, and makes them read-only; what lies between lines (leading dimension > packed) is NaN.
  /// So are a bias and the initial C, when the problem has them.
  /// Throws unsupported for element types that cannot be made, and when the operands
  /// would take more than Instruments::memory_bytes().
  void make(ProblemRef problem, std::uint64_t seed);
  /// Before a run that is verified: every element of C becomes NaN, or its initial value when the problem
  /// accumulates.
  void reset_c();

  /// After damage(): paints the guards again, so that the next config starts clean. reset_c() does the rest.
  void repair();

  GemmBuffers buffers() noexcept;
  Instruments& device() const noexcept { return device_; }
  // In the device's memory.
  const void* a() const noexcept { return a_.data(); }
  const void* b() const noexcept { return b_.data(); }
  const void* c() const noexcept { return c_.data(); }
  /// C before the run; null unless the problem accumulates.
  const void* initial_c() const noexcept { return accumulate_ ? initial_c_.data() : nullptr; }
  /// n elements of C's type; null when the epilogue adds none.
  const void* bias() const noexcept { return has_bias_ ? bias_.data() : nullptr; }
  double alpha() const noexcept { return 1; }
  double beta() const noexcept { return accumulate_ ? 0.5 : 0.0; }

  /// What was written that is no element of C, in words: guard zones of C and the gaps between its lines.
  std::string damage() const;
  /// A, B and C are in no cache afterwards.
  void evict_from_caches() const;

 private:
  Instruments& device_;
  MatrixView view_c_ = {};
  std::int64_t items_ = 0;  ///< batch
  bool accumulate_ = false, has_bias_ = false;
  GuardedBuffer a_, b_, c_, initial_c_, bias_;
};

}  // namespace kscout
