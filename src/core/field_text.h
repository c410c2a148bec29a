#pragma once
/// \file
/// Converts values of record fields to text and back, for flags, CSV, names and one-line forms.
///
///     set_field(problem, "lda", "4096");
///     std::string text = field_text(problem.lda);
#include <charconv>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <kscout/fields.h>
#include <kscout/size_list.h>

#include "core/fail.h"
#include "core/names.h"

namespace kscout {

/// The shortest text that reads back as the same value. Unknown numbers print as "nan", flags as 0 or 1.
template <class V>
std::string field_text(const V& value) {
  if constexpr (std::is_same_v<V, std::string>) {
    return value;
  } else if constexpr (WordEnum<V>) {
    return std::string(word(value));
  } else if constexpr (std::is_same_v<V, bool>) {
    return value ? "1" : "0";
  } else if constexpr (std::is_same_v<V, SizeList>) {
    return size_list_text(value);
  } else {
    return fmt::format("{}", value);
  }
}

/// The first field whose enum value has no word, which only a cast can produce; empty when there is none.
template <Record T>
std::string_view field_without_word(const T& record) noexcept {
  std::string_view first;
  for_each_field<T>([&](const auto& field) {
    using V = std::remove_cvref_t<decltype(record.*field.member)>;
    if constexpr (WordEnum<V>) {
      const bool has_word = static_cast<std::size_t>(record.*field.member) < EnumWords<V>::words.size();
      if (!has_word && first.empty()) first = field.name;
    }
  });
  return first;
}

/// Inverse of field_text. Throws invalid_argument naming the field and the text.
template <class V>
V parse_field(std::string_view name, std::string_view text) {
  if constexpr (std::is_same_v<V, std::string>) {
    return std::string(text);
  } else if constexpr (WordEnum<V>) {
    return parse<V>(text);
  } else if constexpr (std::is_same_v<V, bool>) {
    if (text == "1" || text == "true") return true;
    if (text == "0" || text == "false") return false;
    fail(Errc::invalid_argument, "{}='{}': write 0, 1, true or false", name, text);
  } else if constexpr (std::is_same_v<V, SizeList>) {
    return parse_size_list(text);
  } else {
    V value{};
    const char* const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, value);
    if (error == std::errc::result_out_of_range) {
      fail(Errc::invalid_argument, "{}='{}': does not fit {} bits", name, text, 8 * sizeof(V));
    }
    if (error != std::errc() || end != last || text.empty()) {
      fail(Errc::invalid_argument, "{}='{}': not a {}", name, text,
           std::is_integral_v<V> ? "whole number" : "number");
    }
    return value;
  }
}

template <Record T>
std::vector<std::string_view> field_names() {
  std::vector<std::string_view> names;
  for_each_field<T>([&](const auto& field) { names.push_back(field.name); });
  return names;
}

/// Sets the field called `name` from text; throws invalid_argument naming the nearest field when no field has
/// this name.
template <Record T>
void set_field(T& record, std::string_view name, std::string_view text) {
  bool found = false;
  for_each_field<T>([&](const auto& field) {
    if (field.name != name) return;
    using V = std::remove_cvref_t<decltype(record.*field.member)>;
    record.*field.member = parse_field<V>(name, text);
    found = true;
  });
  if (!found) throw Error(Errc::invalid_argument, unknown_name_message("field", name, field_names<T>()));
}

}  // namespace kscout
