#pragma once
/// \file
/// Numbers the running threads, for counters that each thread keeps on its own.
///
///     Counter& mine = counters[thread_number()];     // of kThreadNumbers + 1
#include <cstddef>
#include <cstdint>

namespace kscout {

/// Each number below this belongs to one thread at a time; when all are taken, further threads share the
/// number kThreadNumbers.
inline constexpr std::size_t kThreadNumbers = 255;

namespace detail {
/// The thread's number plus 1; 0 before its first use. "initial-exec" lets a shared library read it without a
/// function call.
#if defined(__GNUC__)
[[gnu::tls_model("initial-exec")]]
#endif
extern constinit thread_local std::uint32_t number_and_one;
std::size_t take_thread_number() noexcept;
}  // namespace detail

/// The number of the calling thread, 0 .. kThreadNumbers. A new thread may get the number of an ended one,
/// and then sees everything that the ended thread wrote.
inline std::size_t thread_number() noexcept {
  const std::uint32_t known = detail::number_and_one;
  return known != 0 ? known - 1 : detail::take_thread_number();
}

}  // namespace kscout
