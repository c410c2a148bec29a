#pragma once
/// \file
/// Parses and prints the parts that one-line forms of problems share: colons between parts, `x` between
/// sizes, `name=value`.
///
///     const auto parts = split("gemm:4x5x6:fp16:batch=2", ':');
///     const auto sizes = read_sizes(parts[1], text);     // 4, 5, 6
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <kscout/fields.h>
#include <kscout/types.h>

#include "core/fail.h"
#include "core/field_text.h"
#include "core/split.h"

namespace kscout {

/// "4x5x6" as numbers. Throws invalid_argument that quotes `line`, which contains them.
inline std::vector<std::int64_t> read_sizes(std::string_view text, std::string_view line) {
  std::vector<std::int64_t> sizes;
  for (const std::string_view part : split(text, 'x')) {
    std::int64_t& size = sizes.emplace_back();
    const char* const last = part.data() + part.size();
    const auto [end, error] = std::from_chars(part.data(), last, size);
    if (error == std::errc() && end == last) continue;
    fail(Errc::invalid_argument, "'{}': size '{}' {}", line, part,
         error == std::errc::result_out_of_range ? "does not fit 64 bits" : "is not a whole number");
  }
  return sizes;
}

/// ":name=value" for each field that differs from `plain`; not for derived fields.
template <Record T>
std::string assignments(const T& record, const T& plain) {
  std::string text;
  for_each_field<T>([&](const auto& field) {
    if (field.role != FieldRole::derived && !same_value(record.*field.member, plain.*field.member))
      text += fmt::format(":{}={}", field.name, field_text(record.*field.member));
  });
  return text;
}

}  // namespace kscout
