#pragma once
/// \file
/// Sets how many random cases a build tries.
///
///     for (std::uint64_t seed = 0; seed < share_of(400); ++seed) ...   // 50 under a sanitizer
#include <cstdint>
#include <cstdlib>

#ifndef KSCOUT_TEST_SHARE
#define KSCOUT_TEST_SHARE 1
#endif

namespace kscout::test {

/// All of them; an eighth under a sanitizer, where each is much slower and only memory and threads are
/// checked.
constexpr std::uint64_t share_of(std::uint64_t count) {
  return (count + KSCOUT_TEST_SHARE - 1) / KSCOUT_TEST_SHARE;
}

/// As many as an environment variable asks for, for long runs by hand; without it share_of(count).
inline std::uint64_t asked_or_share_of(const char* variable, std::uint64_t count) {
  const char* const asked = std::getenv(variable);
  return asked ? std::strtoull(asked, nullptr, 10) : share_of(count);
}

/// Whether the case of this number is among them.
constexpr bool in_share(std::uint64_t number) { return number % KSCOUT_TEST_SHARE == 0; }

}  // namespace kscout::test
