#pragma once
/// \file
/// The one clock of all timings: steady, in nanoseconds.
#include <chrono>
#include <cstdint>

namespace kscout {

inline std::int64_t now_ns() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Adds the time that it lives to a counter.
///
///     { const StopWatch watch(verify_ns); verifier.check(c); }
class StopWatch {
 public:
  explicit StopWatch(std::int64_t& total) noexcept : total_(total), begin_(now_ns()) {}
  ~StopWatch() { total_ += now_ns() - begin_; }
  StopWatch(const StopWatch&) = delete;
  StopWatch& operator=(const StopWatch&) = delete;

 private:
  std::int64_t& total_;
  std::int64_t begin_;
};

}  // namespace kscout
