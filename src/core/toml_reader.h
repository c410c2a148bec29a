#pragma once
/// \file
/// Gives typed access to a parsed TOML file; every error names file and line.
///
///     class Reader : private TomlReader { ... };      // or used as it is
///     const toml::array& rules = table.array_of(node, "rule");
///
/// Every function throws corrupt_data for a node of another type: "families/x.toml:12: rule must be a list".
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <toml++/toml.h>

#include <kscout/types.h>

#include "core/fail.h"
#include "core/names.h"

namespace kscout {

/// Parses a file's text; every TOML is read by this function. Throws corrupt_data, naming file and line, for
/// invalid TOML and for keys of many parts.
toml::table parse_toml(std::string_view text, std::string_view file);

class TomlReader {
 public:
  explicit TomlReader(std::string_view file) : file_(file) {}

  const std::string& file() const noexcept { return file_; }
  /// "file:line".
  std::string where(const toml::node& at) const {
    return fmt::format("{}:{}", file_, std::max<std::uint32_t>(1, at.source().begin.line));
  }
  [[noreturn]] void complain(const toml::node& at, std::string_view message) const {
    fail(Errc::corrupt_data, "{}: {}", where(at), message);
  }
  /// Runs `read`; meanwhile, errors name `file` instead of this reader's file.
  template <class F>
  void within(const std::string& file, F&& read) {
    const std::string outer = std::exchange(file_, file);
    read();
    file_ = outer;
  }

  /// `what`: the node's description in errors.
  const toml::table& table_of(const toml::node& node, std::string_view what) const {
    if (const auto* table = node.as_table()) return *table;
    complain(node, fmt::format("{} must be a table", what));
  }
  const toml::array& array_of(const toml::node& node, std::string_view what) const {
    if (const auto* array = node.as_array()) return *array;
    complain(node, fmt::format("{} must be a list", what));
  }
  const std::string& text_of(const toml::node& node, std::string_view what) const {
    if (const auto* text = node.as_string()) return text->get();
    complain(node, fmt::format("{} must be a text", what));
  }
  std::vector<std::string> texts_of(const toml::node& node, std::string_view what) const {
    std::vector<std::string> texts;
    for (const toml::node& one : array_of(node, what)) texts.push_back(text_of(one, what));
    return texts;
  }
  /// From 1 to a million.
  std::size_t count_of(const toml::node& node, std::string_view what) const {
    const auto* number = node.as_integer();
    if (number == nullptr || number->get() < 1 || number->get() > 1'000'000)
      complain(node, fmt::format("{} must be a whole number of at least 1", what));
    return static_cast<std::size_t>(number->get());
  }

  /// False when the key is missing.
  bool flag(const toml::table& table, std::string_view key) const {
    const toml::node* const node = table.get(key);
    if (!node) return false;
    const auto* const value = node->as_boolean();
    if (!value) complain(*node, fmt::format("'{}' must be true or false", key));
    return value->get();
  }
  /// The text of a required key, which must not be empty; `what` describes the table.
  const std::string& required_text(const toml::table& table, std::string_view key,
                                   std::string_view what) const {
    const toml::node* node = table.get(key);
    if (node == nullptr) complain(table, fmt::format("{} has no '{}'", what, key));
    const std::string& text = text_of(*node, key);
    if (text.empty()) complain(*node, fmt::format("'{}' of {} is empty", key, what));
    return text;
  }
  /// A list of an enum's words.
  template <WordEnum E>
  std::vector<E> words_of(const toml::table& table, std::string_view key) const {
    const toml::node* node = table.get(key);
    if (node == nullptr) complain(table, fmt::format("'{}' is missing", key));
    std::vector<E> words;
    for (const std::string& text : texts_of(*node, key)) {
      const auto position = find_word(text, EnumWords<E>::words);
      if (!position) complain(*node, unknown_name_message(EnumWords<E>::what, text, EnumWords<E>::words));
      words.push_back(static_cast<E>(*position));
    }
    return words;
  }
  /// Refuses unknown keys, naming the nearest known one; `what`: description of a key.
  void check_keys(const toml::table& table, std::string_view what,
                  const std::vector<std::string_view>& known) const {
    for (const auto& [key, node] : table) {
      if (!find_word(key.str(), known)) complain(node, unknown_name_message(what, key.str(), known));
    }
  }
  /// toml++ sorts keys by name; line numbers restore the order of the file.
  static std::vector<std::pair<std::string, const toml::node*>> as_written(const toml::table& table) {
    std::vector<std::pair<std::string, const toml::node*>> entries;
    for (const auto& [key, node] : table) entries.emplace_back(key.str(), &node);
    std::ranges::stable_sort(entries, {}, [](const auto& entry) {
      const auto at = entry.second->source().begin;
      return std::pair(at.line, at.column);
    });
    return entries;
  }

 private:
  std::string file_;
};

}  // namespace kscout
