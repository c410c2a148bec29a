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
