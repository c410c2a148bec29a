#pragma once
/// \file
/// Converts records to JSON objects and back, by their field lists. Include it in .cpp files only: the JSON
/// header is slow to compile.
///
///     Json json = record_json(device);
///     const auto again = record_from_json<Device>(json, "device");
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>

#include <nlohmann/json.hpp>

#include <kscout/fields.h>

#include "core/fail.h"
#include "core/field_text.h"

namespace kscout {

/// The one JSON type: members keep their order. A second type would double the compile time.
using Json = nlohmann::ordered_json;

/// JSON has no NaN and no infinity: an unknown number becomes null, an infinite one the text "inf" or "-inf".
inline Json json_from_number(double value) {
  if (std::isnan(value)) return nullptr;
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

/// The reason without the JSON library's prefix "[json.exception.parse_error.101] ".
inline std::string reason_of(const Json::exception& error) {
  const std::string_view text = error.what();
  const std::size_t end = text.starts_with('[') ? text.find("] ") : text.npos;
  return std::string(end == text.npos ? text : text.substr(end + 2));
}

/// Inverse of json_from_number; throws corrupt_data for anything else.
inline double number_from_json(const Json& json, std::string_view what, std::string_view name) {
  if (json.is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (json.is_number()) return json.get<double>();
  if (json == "inf" || json == "-inf") return json == "inf" ? HUGE_VAL : -HUGE_VAL;
  fail(Errc::corrupt_data, "{}: '{}' is {}, of the wrong type", what, name, json.dump().substr(0, 40));
}

/// Writes numbers as json_from_number does, words and texts as strings, flags as true and false.
template <Record T>
Json record_json(const T& record) {
  auto json = Json::object();
  for_each_field<T>([&](const auto& field) {
    const auto& value = record.*field.member;
    using V = std::remove_cvref_t<decltype(value)>;
    auto& to = json[std::string(field.name)];
    if constexpr (WordEnum<V>) {
      to = std::string(word(value));
    } else if constexpr (std::is_floating_point_v<V>) {
      to = json_from_number(value);
    } else {
      to = value;
    }
  });
  return json;
}

namespace detail {
template <class V>
V value_from_json(const Json& json, std::string_view what, std::string_view name) {
  if constexpr (WordEnum<V>) {
    if (json.is_string()) return parse<V>(json.get_ref<const std::string&>());
  } else if constexpr (std::is_same_v<V, std::string>) {
    if (json.is_string()) return json.get<std::string>();
  } else if constexpr (std::is_same_v<V, bool>) {
    if (json.is_boolean()) return json.get<bool>();
  } else if constexpr (std::is_floating_point_v<V>) {
    return static_cast<V>(number_from_json(json, what, name));
  } else {
    if (json.is_number_integer()) return parse_field<V>(name, json.dump());
  }
  fail(Errc::corrupt_data, "{}: '{}' is {}, of the wrong type", what, name, json.dump().substr(0, 40));
}
}  // namespace detail

/// Throws corrupt_data unless `json` is an object with exactly the record's fields, each of its type.
template <Record T>
T record_from_json(const Json& json, std::string_view what) {
  if (!json.is_object()) fail(Errc::corrupt_data, "{} is not a JSON object", what);
  T record;
  std::size_t found = 0;
  for_each_field<T>([&](const auto& field) {
    const auto value = json.find(std::string(field.name));
    if (value == json.end()) fail(Errc::corrupt_data, "{}: '{}' is missing", what, field.name);
    using V = std::remove_cvref_t<decltype(record.*field.member)>;
    record.*field.member = detail::value_from_json<V>(*value, what, field.name);
    ++found;
  });
  if (found != json.size()) {
    for (const auto& [name, value] : json.items()) {
      if (!find_word(name, field_names<T>())) {
        throw Error(Errc::corrupt_data,
                    std::string(what) + ": " + unknown_name_message("field", name, field_names<T>()));
      }
    }
  }
  return record;
}

// ---- Prints JSON for people who read files and diffs: one member per line, but a list of numbers or words
// on one line.
//
//     write_file_atomically(path, readable_json(manifest));     // "sizes": [\n  [1,2,3],\n  [4,5,6]\n ]

/// Appends `json`; its members begin on lines that are indented by `level` + 1 blanks. Replaces bytes that
/// are not UTF-8.
template <class Json>
void append_readable_json(const Json& json, std::size_t level, std::string& to) {
  const auto is_structured = [](const Json& member) { return member.is_structured(); };
  const auto text_of = [](const Json& part) {
    return part.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  const bool single_line = !json.is_structured() || json.empty() ||
                           (json.is_array() && std::none_of(json.begin(), json.end(), is_structured));
  if (single_line) {
    to += text_of(json);
    return;
  }
  const std::string line = "\n" + std::string(level, ' ');
  const char* before = "";
  to += json.is_array() ? '[' : '{';
  for (const auto& [name, member] : json.items()) {
    to += before + line + ' ';
    before = ",";
    if (json.is_object()) to += text_of(Json(name)) + ": ";
    append_readable_json(member, level + 1, to);
  }
  to += line + (json.is_array() ? ']' : '}');
}

/// The text of a file, with a final newline.
template <class Json>
std::string readable_json(const Json& json) {
  std::string text;
  append_readable_json(json, 0, text);
  return text + '\n';
}

}  // namespace kscout
