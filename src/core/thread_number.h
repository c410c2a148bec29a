#pragma once
/// \file
/// Numbers the running threads: for counters that each thread keeps on its own.
///
///     Counter& mine = counters[thread_number()];     // of kThreadNumbers + 1
#include <cstddef>
#include <cstdint>

namespace kscout {

/// Each number below this belongs to one thread at a time; threads for which none is left all get this one.
inline constexpr std::size_t kThreadNumbers = 255;

namespace detail {
/// One more than the thread's number; 0 before it asked. Read without a call in code that is part of a
/// shared library.
#if defined(__GNUC__)
[[gnu::tls_model("initial-exec")]]
#endif
extern constinit thread_local std::uint32_t number_and_one;
std::size_t take_thread_number() noexcept;
}  // namespace detail

/// The number of the calling thread, 0 .. kThreadNumbers. A thread that starts after one ended may get its
/// number; what the former wrote before it ended is visible then.
inline std::size_t thread_number() noexcept {
  const std::uint32_t known = detail::number_and_one;
  return known != 0 ? known - 1 : detail::take_thread_number();
}

}  // namespace kscout
