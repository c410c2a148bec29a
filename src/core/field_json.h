#pragma once
/// \file
/// Records as JSON objects and back, from their field lists. Include in .cpp files only: the JSON header is
/// heavy.
///
///     nlohmann::ordered_json json = record_json(device);
///     const auto again = record_from_json<Device>(json, "device");
#include <cmath>
#include <string>
#include <string_view>
#include <type_traits>

#include <nlohmann/json.hpp>

#include <kscout/fields.h>

#include "core/fail.h"
#include "core/field_text.h"

namespace kscout {

/// Numbers as numbers (unknown = null), words and texts as strings, flags as true and false.
template <Record T>
nlohmann::ordered_json record_json(const T& record) {
  auto json = nlohmann::ordered_json::object();
  for_each_field<T>([&](const auto& field) {
    const auto& value = record.*field.member;
    using V = std::remove_cvref_t<decltype(value)>;
    auto& to = json[std::string(field.name)];
    if constexpr (WordEnum<V>) {
      to = std::string(word(value));
    } else if constexpr (std::is_floating_point_v<V>) {
      if (std::isfinite(value)) to = value;
    } else {
      to = value;
    }
  });
  return json;
}

namespace detail {
template <class V>
V value_from_json(const nlohmann::ordered_json& json, std::string_view what, std::string_view name) {
  if constexpr (WordEnum<V>) {
    if (json.is_string()) return parse<V>(json.get_ref<const std::string&>());
  } else if constexpr (std::is_same_v<V, std::string>) {
    if (json.is_string()) return json.get<std::string>();
  } else if constexpr (std::is_same_v<V, bool>) {
    if (json.is_boolean()) return json.get<bool>();
  } else if constexpr (std::is_floating_point_v<V>) {
    if (json.is_null()) return std::numeric_limits<V>::quiet_NaN();
    if (json.is_number()) return json.get<V>();
  } else {
    if (json.is_number_integer()) return parse_field<V>(name, json.dump());
  }
  fail(Errc::corrupt_data, "{}: '{}' is {}, of the wrong type", what, name, json.dump().substr(0, 40));
}
}  // namespace detail

/// Throws corrupt_data unless `json` is an object with exactly the record's fields, each of its type.
template <Record T>
T record_from_json(const nlohmann::ordered_json& json, std::string_view what) {
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

}  // namespace kscout
