#include "core/printable.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include <fmt/format.h>

namespace kscout {

namespace {

/// A character at the beginning of a text.
struct Character {
  std::uint32_t code = 0;
  std::size_t bytes = 0;
};

std::uint8_t byte_at(std::string_view text, std::size_t i) { return static_cast<std::uint8_t>(text[i]); }

/// Bytes of the character that begins with `first`; 0 when no character does.
std::size_t length_of(std::uint8_t first) noexcept {
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return 2;
  if (first >= 0xe0 && first <= 0xef) return 3;
  return first >= 0xf0 && first <= 0xf4 ? 4 : 0;
}

/// Nothing where the bytes are no UTF-8.
std::optional<Character> first_character(std::string_view text) {
  const std::uint8_t first = byte_at(text, 0);
  const std::size_t bytes = length_of(first);
  if (bytes == 1) return Character{first, 1};
  if (bytes == 0 || text.size() < bytes) return std::nullopt;
  std::uint32_t code = first & (0x7fU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte_at(text, i) & 0xc0) != 0x80) return std::nullopt;
    code = code << 6 | (byte_at(text, i) & 0x3fU);
  }
  constexpr std::uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kSmallest[bytes] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return std::nullopt;
  return Character{code, bytes};
}

bool is_harmful(std::uint32_t code) noexcept {
  const auto in = [code](std::uint32_t first, std::uint32_t last) { return code >= first && code <= last; };
  return in(0, 0x1f) || in(0x7f, 0x9f) || code == 0x61c || in(0x200e, 0x200f) || in(0x2028, 0x202e) ||
         in(0x2066, 0x2069) || code == 0xfeff;
}

std::string printed(std::string_view text, bool single_line) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const auto character = first_character(text);
    if (!character) {
      out += fmt::format("\\x{:02x}", byte_at(text, 0));
      text.remove_prefix(1);
      continue;
    }
    const std::uint32_t code = character->code;
    if (code == '\n' || code == '\t') {
      out += single_line ? (code == '\n' ? "\\n" : "\\t") : std::string(1, static_cast<char>(code));
    } else if (single_line && code == '\r') {
      out += "\\r";
    } else if (is_harmful(code)) {
      out += fmt::format("\\u{:04x}", code);
    } else {
      out += text.substr(0, character->bytes);
    }
    text.remove_prefix(character->bytes);
  }
  return out;
}

/// The first characters of a text, in at most `bytes` bytes.
std::string_view first_bytes(std::string_view text, std::size_t bytes) {
  const std::string_view part = text.substr(0, bytes);
  return part.substr(0, part.size() - cut_character_bytes(part));
}

}  // namespace

std::string printable(std::string_view text) { return printed(text, /*single_line=*/false); }

std::string printable_line(std::string_view text) { return printed(text, /*single_line=*/true); }

std::size_t cut_character_bytes(std::string_view text) noexcept {
  for (std::size_t bytes = 1; bytes <= std::min<std::size_t>(text.size(), 3); ++bytes) {
    const std::uint8_t byte = byte_at(text, text.size() - bytes);
    if ((byte & 0xc0) == 0x80) continue;
    return length_of(byte) > bytes ? bytes : 0;
  }
  return 0;
}

std::string shortened(std::string_view message) {
  constexpr std::size_t kMaxInput = 200, kMaxMessage = 4000;
  std::string out;
  while (!message.empty() && out.size() < kMaxMessage) {
    const bool quoted = message.front() == '\'';
    std::size_t end = quoted ? message.find('\'', 1) : message.find_first_of(" '");
    if (quoted && end == std::string_view::npos) end = message.find(' ');  // an apostrophe
    end = std::max<std::size_t>(std::min(end, message.size()), 1);
    const std::string_view part = message.substr(0, end);
    out += first_bytes(part, kMaxInput);
    if (part.size() > kMaxInput) out += "...";
    if (quoted && end < message.size() && message[end] == '\'') out += message[end++];
    message.remove_prefix(end);
  }
  return message.empty() ? out : std::string(first_bytes(out, kMaxMessage)) + "...";
}

}  // namespace kscout
