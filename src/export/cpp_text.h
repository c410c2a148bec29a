#pragma once
/// \file
/// Pieces of C++ source: numbers with all their bits, tables, texts.
#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <kscout/problem.h>

namespace kscout {

/// A double literal that reads back as the same value; NaN is `unknown`, infinities are `infinity`.
std::string cpp_number(double value);
/// A string literal.
std::string cpp_text(std::string_view text);

/// `inline constexpr TYPE NAME[...] = {...};`, one element more when there is none (C++ has no empty arrays).
std::string cpp_array(std::string_view type, std::string_view name, std::span<const double> values);
std::string cpp_array(std::string_view type, std::string_view name, std::span<const std::int64_t> values);
std::string cpp_array(std::string_view type, std::string_view name, std::span<const std::string> literals);
template <std::integral T>
std::string cpp_array(std::string_view type, std::string_view name, const std::vector<T>& values) {
  const std::vector<std::int64_t> wide(values.begin(), values.end());
  return cpp_array(type, name, std::span<const std::int64_t>(wide));
}

/// The enums of a problem and `struct Problem`, as GemmProblem has them.
std::string cpp_problem_types();

/// Throws invalid_argument unless `name` can be a namespace (a::b counts).
void check_namespace(std::string_view name);
/// `text` with every character that a name cannot hold made '_': "gemm_fp32_zen3-2c" gives
/// "gemm_fp32_zen3_2c".
std::string cpp_name(std::string_view text);

}  // namespace kscout
