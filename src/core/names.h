#pragma once
/// \file
/// Looks names up in lists of words; the error for an unknown name suggests the nearest valid one.
///
///     // throws: unknown rule set 'defualt'; did you mean 'default'?
///     const std::size_t i = index_of_word("rule set", "defualt", names);
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kscout {

/// The word closest to `name` by edit distance, or nothing when the distance exceeds a third of the length.
std::optional<std::string_view> nearest_word(std::string_view name, std::span<const std::string_view> words);

/// "unknown rule set 'defualt'; did you mean 'default'? (one of: tiny, default, full)"; long lists are
/// shortened.
std::string unknown_name_message(std::string_view what, std::string_view name,
                                 std::span<const std::string_view> words);

/// Position of `name` in `words`, or nothing.
std::optional<std::size_t> find_word(std::string_view name, std::span<const std::string_view> words) noexcept;

/// Position of `name` in `words`. Throws invalid_argument with unknown_name_message.
std::size_t index_of_word(std::string_view what, std::string_view name,
                          std::span<const std::string_view> words);

/// Views of the strings, for the functions above.
std::vector<std::string_view> views(std::span<const std::string> words);

}  // namespace kscout
