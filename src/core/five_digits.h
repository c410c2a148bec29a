#pragma once
/// \file
/// Times as files keep them: 5 digits, which is more than any measurement has.
///
///     five_digits(12.3456789);  // 12.346
#include <charconv>
#include <string>

#include <fmt/format.h>

namespace kscout {

inline constexpr int kTimeDigits = 5;

/// The nearest number of 5 decimal digits, as it reads back from text. Not a number stays one.
inline double five_digits(double value) {
  if (value != value) return value;
  const std::string text = fmt::format("{:.{}g}", value, kTimeDigits);
  double read = 0;
  std::from_chars(text.data(), text.data() + text.size(), read);
  return read;
}

}  // namespace kscout
