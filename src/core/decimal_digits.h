#pragma once
/// \file
/// Measured numbers as files keep them: no more decimal digits than mean something.
///
///     with_digits(12.3456789, kTimeDigits);  // 12.346
#include <charconv>
#include <string>

#include <fmt/format.h>

namespace kscout {

inline constexpr int kTimeDigits = 5;   ///< more than any measurement has
inline constexpr int kDoubtDigits = 2;  ///< of what tells how far a time or a result may be off

/// The nearest number of so many decimal digits, as it reads back from text. Not a number stays one.
inline double with_digits(double value, int digits) {
  if (value != value) return value;
  const std::string text = fmt::format("{:.{}g}", value, digits);
  double read = 0;
  std::from_chars(text.data(), text.data() + text.size(), read);
  return read;
}

}  // namespace kscout
