#pragma once
/// \file
/// Makes texts from elsewhere safe to print: files, libraries and command lines may hold escape sequences.
///
///     fmt::print("{}\n", printable(name));              // "a\u001b[2J" in place of a cleared screen
///     const std::string line = printable_line(reason);  // "first\nsecond" with the two characters \n
#include <string>
#include <string_view>

namespace kscout {

/// Replaces what a terminal would obey or show in another order: control characters but line breaks and tabs,
/// bidirectional overrides and isolates, line separators of Unicode, all as \u202e; bytes that are no UTF-8
/// as \x9b. Other text stays as it is. In a JSON string, such a replacement means the same character.
std::string printable(std::string_view text);

/// printable(), with line breaks and tabs as \n, \r and \t: fit for one line.
std::string printable_line(std::string_view text);

/// Bytes at the end of `text` that begin a character whose rest is missing: 0 to 3.
std::size_t cut_character_bytes(std::string_view text) noexcept;

/// Cuts words and quoted inputs in a message at 200 characters, and the message at 4,000.
std::string shortened(std::string_view message);

}  // namespace kscout
