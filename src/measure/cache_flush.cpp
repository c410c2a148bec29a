#include "measure/cache_flush.h"

#include <algorithm>
#include <vector>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace kscout {

#if defined(__x86_64__)

void flush_from_caches(const void* data, std::size_t bytes) noexcept {
  constexpr std::size_t kLine = 64;
  const char* const begin = static_cast<const char*>(data);
  for (std::size_t at = 0; at < bytes; at += kLine) _mm_clflush(begin + at);
  if (bytes > 0) _mm_clflush(begin + bytes - 1);
}

void finish_flushes() noexcept { _mm_mfence(); }

#else

// No user-level flush: walk a buffer larger than common last levels instead.
void flush_from_caches(const void*, std::size_t) noexcept {}

void finish_flushes() noexcept {
  static std::vector<char> walk(std::size_t{96} << 20, 1);
  for (std::size_t at = 0; at < walk.size(); at += 64) {
    auto& byte = const_cast<volatile char&>(walk[at]);
    byte = static_cast<char>(byte + 1);
  }
}

#endif

}  // namespace kscout
