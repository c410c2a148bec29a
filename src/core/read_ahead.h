#pragma once
/// \file
/// Memory that somebody is about to read here and there, read in order before.
#include <cstddef>
#include <span>

namespace kscout {

/// What is larger pushes itself out of a cache, or what else is wanted from it.
inline constexpr std::size_t kMostReadAhead = std::size_t{128} << 10;

/// Reads a byte of each cache line. Reads in order overlap, and the core sees what comes next. Prefetches
/// win less (docs/design/0003-sliced-forest.md).
template <class T>
void read_ahead(std::span<const T> of) noexcept {
  constexpr std::size_t kLine = 64;
  const std::span<const std::byte> bytes = std::as_bytes(of);
  if (bytes.size() > kMostReadAhead) return;
  for (std::size_t at = 0; at < bytes.size(); at += kLine) {
    static_cast<void>(*static_cast<const volatile std::byte*>(&bytes[at]));
  }
}

}  // namespace kscout

// ---- Functions that run after one another, side by side in a section of their own, so that their code can
// be read before it runs. What other work has pushed out of the caches is otherwise fetched a line at a time,
// each when the one before it has run.
//
//     KSCOUT_CODE(kscout_choice) inline void first() { ... }
//     KSCOUT_CODE_BOUNDS(kscout_choice);                 // not in a namespace without a name
//     read_ahead(KSCOUT_CODE_OF(kscout_choice));          // core/read_ahead.h
//
// The linker says where such a section begins and ends, since its name (a word, or a macro that makes one)
// is an identifier. Its functions are all inline, as members defined in their class are, or none is: GCC
// keeps the two kinds apart. Of templates GCC before 14 ignores the section.

#if defined(__ELF__)
#define KSCOUT_CODE(name) KSCOUT_CODE_(name)
#define KSCOUT_CODE_(name) __attribute__((section(#name)))
#define KSCOUT_CODE_BOUNDS(name) KSCOUT_CODE_BOUNDS_(name)
#define KSCOUT_CODE_BOUNDS_(name) \
  extern "C" __attribute__((visibility("hidden"))) const std::byte __start_##name[], __stop_##name[]
#define KSCOUT_CODE_OF(name) KSCOUT_CODE_OF_(name)
#define KSCOUT_CODE_OF_(name) std::span<const std::byte>(__start_##name, __stop_##name)
#else
#define KSCOUT_CODE(name)
#define KSCOUT_CODE_BOUNDS(name) static_assert(true)
#define KSCOUT_CODE_OF(name) std::span<const std::byte>()
#endif
