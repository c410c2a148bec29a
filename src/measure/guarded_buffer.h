#pragma once
/// \file
/// Memory that notices writes past its ends.
///
///     GuardedBuffer c(1);
///     c.resize(bytes);
///     kernel(c.data());
///     if (auto damage = c.damage(); !damage.empty()) ...  // "16 bytes past its end"
#include <cstddef>
#include <cstdint>
#include <string>

#include "measure/instruments.h"

namespace kscout {

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

}  // namespace kscout
