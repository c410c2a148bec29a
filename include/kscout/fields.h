#pragma once
/// \file
/// Defines one list of fields per record type; equality, hash, printing, columns, JSON, CSV and flags follow
/// from it.
///
///     for_each_field<GemmProblem>(
///         [&](const auto& field) { table.add_column(field.name, problem.*field.member); });
///
/// A type takes part by specialising Fields with `static constexpr auto list = std::tuple{Field{...}, ...}`.
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

#include <kscout/types.h>

namespace kscout {

/// What a field is for: `identity` takes part in equality and hash; `note` only describes the record;
/// `derived` follows from other fields, so that nobody sets it.
enum class FieldRole : std::uint8_t { identity, note, derived };

/// One field of record T: its column name, unit ("1" without a unit) and meaning.
template <class T, class V>
struct Field {
  using record = T;
  using value = V;
  std::string_view name;
  V T::*member;
  std::string_view unit;
  std::string_view help;
  FieldRole role = FieldRole::identity;
};
template <class T, class V>
Field(std::string_view, V T::*, std::string_view, std::string_view) -> Field<T, V>;
template <class T, class V>
Field(std::string_view, V T::*, std::string_view, std::string_view, FieldRole) -> Field<T, V>;

template <class T>
struct Fields;

template <class T>
concept Record = requires {
  Fields<T>::list;
};

/// Calls fn(field) for each field of T, in order.
template <Record T, class F>
constexpr void for_each_field(F&& fn) {
  std::apply([&](const auto&... field) { (fn(field), ...); }, Fields<T>::list);
}

template <Record T>
inline constexpr std::size_t field_count = std::tuple_size_v<std::remove_cvref_t<decltype(Fields<T>::list)>>;

/// Whether two values are equal; NaN (unknown) equals NaN.
template <class V>
constexpr bool same_value(const V& a, const V& b) noexcept {
  if constexpr (std::is_floating_point_v<V>) {
    return a == b || (a != a && b != b);
  } else {
    return a == b;
  }
}

template <Record T>
constexpr bool fields_equal(const T& a, const T& b) {
  bool equal = true;
  for_each_field<T>([&](const auto& field) {
    if (field.role == FieldRole::identity) equal = equal && same_value(a.*field.member, b.*field.member);
  });
  return equal;
}

/// splitmix64 finaliser: spreads every input bit over the result.
constexpr std::uint64_t mix_hash(std::uint64_t seed, std::uint64_t value) noexcept {
  std::uint64_t x = seed + 0x9e3779b97f4a7c15ULL + value;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// Hash over the identity fields. Equal records have equal hashes. Stable within one build, not across
/// versions.
template <Record T>
std::uint64_t fields_hash(const T& record) {
  std::uint64_t hash = 0;
  for_each_field<T>([&](const auto& field) {
    if (field.role != FieldRole::identity) return;
    using V = std::remove_cvref_t<decltype(record.*field.member)>;
    const V& value = record.*field.member;
    if constexpr (std::is_same_v<V, std::string>) {
      hash = mix_hash(hash, std::hash<std::string>{}(value));
    } else if constexpr (std::is_floating_point_v<V>) {
      const double canonical =
          value != value ? std::nan("") : (value == 0 ? 0.0 : static_cast<double>(value));
      hash = mix_hash(hash, std::bit_cast<std::uint64_t>(canonical));
    } else {
      hash = mix_hash(hash, static_cast<std::uint64_t>(value));
    }
  });
  return hash;
}

}  // namespace kscout
