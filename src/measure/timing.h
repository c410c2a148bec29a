#pragma once
/// \file
/// Controls what a timing depends on: the clock, samples long enough for it, CPU affinity, cold caches.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

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

// ---- One sample of a timing: enough calls in a row for the clock.
//
//     const double us = batch_us([&] { launch.run(buffers, workspace); }, expected_us);   // of one call

/// A batch on a CPU is at least this long: clock and call cost stay below 0.3 %.
inline constexpr double kBatchUs = 20;
inline constexpr double kMaxCalls = 256;  ///< of one batch

/// Microseconds of one call, the mean of `calls`.
template <class Call>
double mean_us(const Call& call, double calls) {
  const std::int64_t begin = now_ns();
  for (int i = 0; i < static_cast<int>(calls); ++i) call();
  return static_cast<double>(now_ns() - begin) / 1e3 / calls;
}

/// How many calls make a batch that is at least so long; `expected_us`: about what a call takes.
inline double calls_of_batch(double batch_us, double expected_us) {
  return std::clamp(std::ceil(batch_us / std::max(expected_us, 1e-3)), 1.0, kMaxCalls);
}

/// Microseconds of one call, the mean of a batch.
template <class Call>
double batch_us(const Call& call, double expected_us) {
  return mean_us(call, calls_of_batch(kBatchUs, expected_us));
}

// ---- Which CPUs a process may use.
//
//     const auto shares = share_cpus(allowed_cpus(), 2);
//     use_only(shares[0]);        // before any thread is created: threads inherit it

/// CPUs this process may run on, ascending.
std::vector<int> allowed_cpus();
/// Restricts the calling thread, and those it creates from now on. Throws device_failure.
void use_only(const std::vector<int>& cpus);
/// Contiguous parts of nearly equal size. With more workers than CPUs, CPUs are shared.
std::vector<std::vector<int>> share_cpus(const std::vector<int>& cpus, int workers);

/// CPUs that a list may name; Linux can be built for at most 8,192 (CONFIG_NR_CPUS on x86).
inline constexpr int kMaxCpus = 8192;

/// "0-3,8" and back. Values lie below `limit`, which bounds the memory that a hostile "0-999999999" can take.
/// Throws invalid_argument for anything else.
std::string print_ranges(const std::vector<int>& ascending);
std::vector<int> parse_ranges(std::string_view text, int limit);

// ---- Empties caches of a buffer, so that the next read comes from memory: the "cold" protocol.
//
//     flush_from_caches(a, bytes); flush_from_caches(b, bytes); finish_flushes();
//
// Flushes the lines of the operands themselves (x86 `clflush`, which reaches every level and every core)
// instead of walking a buffer larger than the last level: the cost follows the operands,
// and nothing of the kernel's code or of the program is lost with them.

void flush_from_caches(const void* data, std::size_t bytes) noexcept;
/// Waits until all flushes are done.
void finish_flushes() noexcept;

}  // namespace kscout
