#pragma once
/// \file
/// Binds records as Python objects, from the library's list of fields per record.
///
///     nb::class_<Device> type(module, "Device");
///     bind_fields(type);                       // one read-only property per field, with unit and meaning
#include <concepts>
#include <span>
#include <string>
#include <string_view>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <kscout/error.h>
#include <kscout/fields.h>
#include <kscout/types.h>

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

/// The type of words in stubs.
inline std::string literal_of(std::span<const std::string_view> words) {
  std::string text = "typing.Literal[";
  for (const auto word : words) text += (text.back() == '[' ? "'" : ", '") + std::string(word) + "'";
  return text + "]";
}

/// The name of a field's type in stubs.
template <class V>
std::string python_type() {
  if constexpr (WordEnum<V>) {
    return literal_of(EnumWords<V>::words);
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

/// The help of a field: "rows of A and C, in elements."
inline std::string field_help(std::string_view help, std::string_view unit) {
  return std::string(help) + (unit == "1" ? std::string() : ", in " + std::string(unit)) + ".";
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
    const std::string help = field_help(field.help, field.unit);
    const auto member = field.member;
    type.def_prop_ro(
        std::string(field.name).c_str(), [member](const T& record) { return to_python(record.*member); },
        nb::for_getter(nb::sig(signature.c_str())), nb::for_getter(help.c_str()));
  });
}

}  // namespace kscout::python
