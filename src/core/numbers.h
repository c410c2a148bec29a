#pragma once
/// \file
/// Reads numbers, computes quantiles, and rounds measured numbers to their significant digits.
///
///     const auto slices = number_in<int>(text);            // nothing for "4x"
///     const double median = quantile(values, 0.5);
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

namespace kscout {

/// The number that the whole text is; nothing for another text or a number that does not fit.
template <class T>
std::optional<T> number_in(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

/// The value at a fraction of the sorted values, linearly interpolated (position (n - 1) * fraction); NaN for
/// no values. Cost: a sort.
double quantile(std::vector<double> values, double fraction);

// ---- Rounds measured numbers for files to their significant decimal digits.
//
//     with_digits(12.3456789, kTimeDigits);  // 12.346

inline constexpr int kTimeDigits = 5;   ///< exceeds the accuracy of any measurement
inline constexpr int kDoubtDigits = 2;  ///< for uncertainties of times and results

/// The nearest number with this many decimal digits, as it reads back from text. NaN stays NaN.
inline double with_digits(double value, int digits) {
  if (value != value) return value;
  const std::string text = fmt::format("{:.{}g}", value, digits);
  double read = 0;
  std::from_chars(text.data(), text.data() + text.size(), read);
  return read;
}

}  // namespace kscout
