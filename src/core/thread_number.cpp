#include "core/thread_number.h"

#include <array>
#include <atomic>

namespace kscout::detail {

constinit thread_local std::uint32_t number_and_one = 0;

std::size_t take_thread_number() noexcept {
  static constinit std::array<std::atomic<bool>, kThreadNumbers> taken = {};
  struct Lease {  // lives as long as its thread
    std::size_t number = 0;
    Lease() noexcept {
      while (number < kThreadNumbers && taken[number].exchange(true, std::memory_order_acquire)) ++number;
      number_and_one = static_cast<std::uint32_t>(number + 1);
    }
    ~Lease() {
      number_and_one = kThreadNumbers + 1;  // for code that counts later, at the very end of the thread
      if (number < kThreadNumbers) taken[number].store(false, std::memory_order_release);
    }
  };
  thread_local const Lease lease;
  return lease.number;
}

}  // namespace kscout::detail
