#pragma once
/// \file
/// Sets how many random cases a build tries.
///
///     for (std::uint64_t seed = 0; seed < share_of(400); ++seed) ...   // 50 under a sanitizer
#include <cstdint>

#ifndef KSCOUT_TEST_SHARE
#define KSCOUT_TEST_SHARE 1
#endif

namespace kscout::test {

/// All of them; an eighth under a sanitizer, where each is much slower and only memory and threads are
/// checked.
constexpr std::uint64_t share_of(std::uint64_t count) {
  return (count + KSCOUT_TEST_SHARE - 1) / KSCOUT_TEST_SHARE;
}

/// Whether the case of this number is among them.
constexpr bool in_share(std::uint64_t number) { return number % KSCOUT_TEST_SHARE == 0; }

}  // namespace kscout::test
