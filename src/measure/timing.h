#pragma once
/// \file
/// Controls the conditions of a timing: the clock, samples long enough for it, CPU affinity, cold caches.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace kscout {

inline std::int64_t now_ns() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Returns nanoseconds: now_ns(), or the stand-in clock of a test.
using ReadClock = std::function<std::int64_t()>;

/// Adds its lifetime to a counter.
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

// ---- Takes one sample of a timing: enough consecutive calls for the clock's resolution.
//
//     const double us = batch_us([&] { launch.run(buffers, workspace); }, expected_us);   // of one call

/// Minimum length of a batch on a CPU, so that clock and call cost stay below 0.3 %.
inline constexpr double kBatchUs = 20;
inline constexpr double kMaxCalls = 256;  ///< per batch

/// Microseconds of one call, the mean of `calls`.
template <class Call>
double mean_us(const Call& call, double calls) {
  const std::int64_t begin = now_ns();
  for (int i = 0; i < static_cast<int>(calls); ++i) call();
  return static_cast<double>(now_ns() - begin) / 1e3 / calls;
}

/// Number of calls in a batch of at least `batch_us`; `expected_us`: approximate time of a call.
inline double calls_of_batch(double batch_us, double expected_us) {
  return std::clamp(std::ceil(batch_us / std::max(expected_us, 1e-3)), 1.0, kMaxCalls);
}

/// Microseconds of one call, the mean of a batch.
template <class Call>
double batch_us(const Call& call, double expected_us) {
  return mean_us(call, calls_of_batch(kBatchUs, expected_us));
}

// ---- Lists and restricts the CPUs that a process may use.
//
//     const auto shares = share_cpus(allowed_cpus(), 2);
//     use_only(shares[0]);        // before any thread is created: threads inherit it

/// CPUs this process may run on, ascending.
std::vector<int> allowed_cpus();
/// Restricts the calling thread, and threads that it creates later. Throws device_failure.
void use_only(const std::vector<int>& cpus);
/// Contiguous parts of equal size, so that every worker is the same device; CPUs that remain stay idle. With
/// more workers than CPUs, CPUs are shared.
std::vector<std::vector<int>> share_cpus(const std::vector<int>& cpus, int workers);

/// Maximum number of CPUs in a list: Linux supports at most 8,192 (CONFIG_NR_CPUS on x86).
inline constexpr int kMaxCpus = 8192;

/// Print and parse "0-3,8". Values must be below `limit`, which bounds the memory that a hostile
/// "0-999999999" can take. Throws invalid_argument for anything else.
std::string print_ranges(const std::vector<int>& ascending);
std::vector<int> parse_ranges(std::string_view text, int limit);

// ---- Removes a buffer from the caches, so that the next read comes from memory: the "cold" protocol.
//
//     flush_from_caches(a, bytes); flush_from_caches(b, bytes); finish_flushes();
//
// Flushes the lines of the operands themselves (x86 `clflush`, which reaches every level and every core)
// instead of walking a buffer larger than the last level. The cost depends on the operands only, and the code
// of the kernel and the program stays in the caches.

void flush_from_caches(const void* data, std::size_t bytes) noexcept;
/// Waits until all flushes are done.
void finish_flushes() noexcept;

}  // namespace kscout
