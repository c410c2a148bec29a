#pragma once
/// \file
/// A hash of text that stays the same for ever: it stands in files and tells whether two texts are equal.
///
///     const std::uint64_t hash = text_hash("b", text_hash("a"));   // that of "ab"
///     std::string text = hash_digits(text_hash("a"));              // "af63dc4c8601ec8c"
#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace kscout {

/// FNV-1a, 64 bits: simple enough to be written again by whoever reads our files; no defence against forgery.
/// `before`: the hash of what stands before the text.
constexpr std::uint64_t text_hash(std::string_view text,
                                  std::uint64_t before = 0xcbf29ce484222325ULL) noexcept {
  for (const char c : text) before = (before ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return before;
}

/// 16 hexadecimal digits.
inline std::string hash_digits(std::uint64_t hash) { return fmt::format("{:016x}", hash); }

}  // namespace kscout
