#include "core/thread_number.h"

#include <atomic>
#include <bit>

namespace kscout::detail {
namespace {

/// Bit n: a running thread has number n.
constinit std::atomic<std::uint64_t> taken = 0;

/// A number for as long as its thread runs.
class Lease {
 public:
  Lease() noexcept : number_(take()) { number_and_one = static_cast<std::uint32_t>(number_ + 1); }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() {
    if (number_ == kThreadNumbers) return;
    number_and_one = kThreadNumbers + 1;  // should something count later, at the thread's very end
    taken.fetch_and(~(std::uint64_t{1} << number_), std::memory_order_release);
  }
  std::size_t number() const noexcept { return number_; }

 private:
  static std::size_t take() noexcept {
    std::uint64_t now = taken.load(std::memory_order_relaxed);
    for (;;) {
      const auto number = static_cast<std::size_t>(std::countr_one(now));
      if (number >= kThreadNumbers) return kThreadNumbers;
      const std::uint64_t then = now | std::uint64_t{1} << number;
      if (taken.compare_exchange_weak(now, then, std::memory_order_acquire, std::memory_order_relaxed)) {
        return number;
      }
    }
  }
  std::size_t number_;
};

}  // namespace

constinit thread_local std::uint32_t number_and_one = 0;

std::size_t take_thread_number() noexcept {
  thread_local const Lease lease;
  return lease.number();
}

}  // namespace kscout::detail
