#pragma once
/// \file
/// Binds records as Python objects, from the library's list of fields per record.
///
///     nb::class_<Device> type(module, "Device");
///     bind_fields(type);                       // one read-only property per field, with unit and meaning
#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <kscout/conv_problem.h>
#include <kscout/error.h>
#include <kscout/fields.h>

namespace kscout::python {

namespace nb = nanobind;

/// Converts to Python: words become str, unknown numbers and empty texts None.
template <class V>
nb::object to_python(const V& value) {
  if constexpr (WordEnum<V>) {
    return nb::cast(word(value));
  } else if constexpr (std::is_floating_point_v<V>) {
    return value != value ? nb::none() : nb::cast(value);
  } else if constexpr (std::is_same_v<V, std::string>) {
    return value.empty() ? nb::none() : nb::cast(value);
  } else {
    return nb::cast(value);
  }
}

/// Converts from Python. Throws invalid_argument for an unknown word, TypeError naming the field for a value
/// of another type.
template <class V>
V from_python(std::string_view name, nb::handle value) {
  try {
    if constexpr (WordEnum<V>) {
      return parse<V>(nb::cast<std::string_view>(value));
    } else {
      return nb::cast<V>(value);
    }
  } catch (const nb::cast_error&) {
    throw nb::type_error((std::string(name) + "=" + nb::repr(value).c_str() + " has the wrong type").c_str());
  }
}

/// The name of a field's type in stubs.
template <class V>
std::string python_type() {
  if constexpr (WordEnum<V>) {
    std::string text = "typing.Literal[";
    for (const auto w : EnumWords<V>::words)
      text += (text.back() == '[' ? "'" : ", '") + std::string(w) + "'";
    return text + "]";
  } else if constexpr (std::is_same_v<V, bool>) {
    return "bool";
  } else if constexpr (std::is_floating_point_v<V>) {
    return "float";
  } else if constexpr (std::is_same_v<V, std::string>) {
    return "str";
  } else {
    return "int";
  }
}

/// A field's value as text, as set_fields of a problem reads it.
template <class V>
std::string field_text_of(const V& value) {
  if constexpr (WordEnum<V>) {
    return std::string(word(value));
  } else if constexpr (std::is_same_v<V, bool>) {
    return value ? "1" : "0";
  } else if constexpr (std::is_floating_point_v<V>) {
    return nb::repr(nb::float_(value)).c_str();  // reads back as the same number
  } else {
    return std::to_string(value);
  }
}

/// The value of a name that is no field, such as `pad`: text, a whole number, or one for each axis.
inline std::string general_text_of(std::string_view name, nb::handle value) {
  if (nb::isinstance<nb::str>(value)) return nb::cast<std::string>(value);
  if (!nb::isinstance<nb::sequence>(value)) return std::to_string(from_python<std::int64_t>(name, value));
  std::string text;
  for (const nb::handle one : value)
    text += (text.empty() ? "" : "x") + std::to_string(from_python<std::int64_t>(name, one));
  return text;
}

/// Sets the fields of a problem that keyword arguments name, general names included. Throws as set_fields of
/// the library, TypeError for a value of another type.
template <Record T>
void set_keywords(T& record, const nb::kwargs& given) {
  std::vector<std::pair<std::string, std::string>> texts;
  for (const auto& [key, value] : given) {
    const auto name = nb::cast<std::string>(key);
    std::optional<std::string> text;
    for_each_field<T>([&](const auto& field) {
      using V = std::remove_cvref_t<decltype(record.*field.member)>;
      if (field.name == name) text = field_text_of(from_python<V>(name, value));
    });
    texts.emplace_back(name, text ? *text : general_text_of(name, value));
  }
  std::vector<GivenField> fields;
  for (const auto& [name, text] : texts) fields.push_back({name, text});
  set_fields(record, fields);
}

template <Record T>
nb::dict fields_dict(const T& record) {
  nb::dict dict;
  for_each_field<T>([&](const auto& field) { dict[nb::cast(field.name)] = to_python(record.*field.member); });
  return dict;
}

/// One read-only property per field. A number or text that may be unknown is `... | None`.
template <Record T, class Class>
void bind_fields(Class& type, bool may_be_unknown) {
  for_each_field<T>([&](const auto& field) {
    using V = typename std::remove_cvref_t<decltype(field)>::value;
    const bool optional = may_be_unknown && (std::is_floating_point_v<V> || std::is_same_v<V, std::string>);
    const std::string signature =
        "def " + std::string(field.name) + "(self) -> " + python_type<V>() + (optional ? " | None" : "");
    const std::string unit = field.unit == "1" ? "" : ", in " + std::string(field.unit);
    const std::string help = std::string(field.help) + unit + ".";
    const auto member = field.member;
    type.def_prop_ro(
        std::string(field.name).c_str(), [member](const T& record) { return to_python(record.*member); },
        nb::for_getter(nb::sig(signature.c_str())), nb::for_getter(help.c_str()));
  });
}

}  // namespace kscout::python
