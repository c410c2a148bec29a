/// \file
/// Defines the functions of {fmt} that the core uses: its shared library may differ from the program's.
#include <fmt/format-inl.h>

// Declared extern in the header.
template auto fmt::detail::thousands_sep_impl<char>(locale_ref) -> thousands_sep_result<char>;
template auto fmt::detail::decimal_point_impl(locale_ref) -> char;
