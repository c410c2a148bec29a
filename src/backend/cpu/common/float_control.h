#pragma once
/// \file
/// Gives one thread the rounding and flush-to-zero mode of another.
///
///     const FloatControl of_caller = FloatControl::here();
///     ...                                                   // in a worker:
///     of_caller.set_without_traps();
///
///     const FloatControlScope scope(of_caller);             // in a thread that needs its own again
#include <cfenv>
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace kscout::cpu {

class FloatControl {
 public:
#if defined(__x86_64__)
  static FloatControl here() noexcept { return FloatControl(_mm_getcsr()); }
  void set_without_traps() const noexcept { _mm_setcsr((bits_ & kModes) | kNoTraps); }
  void set() const noexcept { _mm_setcsr(bits_); }
#elif defined(__aarch64__)
  static FloatControl here() noexcept {
    std::uint64_t bits = 0;
    __asm__ volatile("mrs %0, fpcr" : "=r"(bits));
    return FloatControl(static_cast<std::uint32_t>(bits));
  }
  void set_without_traps() const noexcept { write(bits_ & kModes); }
  void set() const noexcept { write(bits_); }
#else
  static FloatControl here() noexcept { return FloatControl(static_cast<std::uint32_t>(std::fegetround())); }
  void set_without_traps() const noexcept { set(); }
  void set() const noexcept { std::fesetround(static_cast<int>(bits_)); }
#endif
  FloatControl() = default;

 private:
  explicit FloatControl(std::uint32_t bits) noexcept : bits_(bits) {}
#if defined(__x86_64__)
  /// Bits of the control word MXCSR ("Intel 64 and IA-32 Architectures Software Developer's Manual", vol. 1,
  /// 10.2.3): flush to zero, rounding, denormals are zeros; and all exceptions masked.
  static constexpr std::uint32_t kModes = 0xE040, kNoTraps = 0x1F80;
#elif defined(__aarch64__)
  /// Bits of the register FPCR ("Arm Architecture Reference Manual", C5.2): rounding, flush to zero, default
  /// NaN. All trap bits stay 0.
  static constexpr std::uint32_t kModes = 0x07C00000;
  static void write(std::uint32_t bits) noexcept {
    __asm__ volatile("msr fpcr, %0" : : "r"(std::uint64_t{bits}));
  }
#endif
  std::uint32_t bits_ = 0;
};

/// Sets the modes of another thread, and this thread's own again at its end.
class FloatControlScope {
 public:
  explicit FloatControlScope(FloatControl of) noexcept : own_(FloatControl::here()) {
    of.set_without_traps();
  }
  ~FloatControlScope() { own_.set(); }
  FloatControlScope(const FloatControlScope&) = delete;
  FloatControlScope& operator=(const FloatControlScope&) = delete;

 private:
  FloatControl own_;
};

}  // namespace kscout::cpu
