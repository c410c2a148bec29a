#pragma once
/// \file
/// Hashes text in a way that never changes (for files), and machine words quickly (for tables in memory).
///
///     const std::uint64_t hash = text_hash("b", text_hash("a"));   // that of "ab"
///     std::string text = hash_digits(text_hash("a"));              // "af63dc4c8601ec8c"
#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace kscout {

/// FNV-1a, 64 bits: simple enough to reimplement in other programs that read KernelScout's files; no defence
/// against forgery. `before`: the hash of the preceding text.
constexpr std::uint64_t text_hash(std::string_view text,
                                  std::uint64_t before = 0xcbf29ce484222325ULL) noexcept {
  for (const char c : text) before = (before ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return before;
}

/// Folds both halves of the 128-bit product into one word: every bit of either factor affects every bit.
constexpr std::uint64_t folded_product(std::uint64_t a, std::uint64_t b) noexcept {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

/// Hashes a fixed number of words; all bits are usable; stable within one build, not over versions. Each
/// product takes two words, and no product waits for another. Method: wyhash (public domain); the constants
/// are digits of pi and e.
template <std::size_t N>
constexpr std::uint64_t words_hash(const std::array<std::uint64_t, N>& words) noexcept {
  constexpr std::uint64_t kPi = 0x243f6a8885a308d3ULL, kE = 0xb7e151628aed2a6bULL,
                          kStep = 0x9e3779b97f4a7c15ULL;
  std::uint64_t hash = N;
  for (std::size_t i = 0; i < N; i += 2) {
    const std::uint64_t second = i + 1 < N ? words[i + 1] : 0;
    hash ^= folded_product(words[i] ^ (kPi + i * kStep), second ^ (kE + i * kStep));
  }
  return folded_product(hash ^ kPi, kE);
}

/// Prints a hash as 16 hexadecimal digits.
inline std::string hash_digits(std::uint64_t hash) { return fmt::format("{:016x}", hash); }

// ---- Computes the CRC-32 of zlib and PNG.
//
//     std::uint32_t sum = crc32_of(header);
//     sum = crc32_of(body, sum);              // that of header and body

/// `before`: the CRC of the preceding bytes.
std::uint32_t crc32_of(std::string_view bytes, std::uint32_t before = 0) noexcept;

}  // namespace kscout
