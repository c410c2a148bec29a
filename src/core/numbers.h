#pragma once
/// \file
/// Computes quantiles, and rounds measured numbers to the digits that mean something.
///
///     const double median = quantile(values, 0.5);
#include <charconv>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace kscout {

/// Value at a fraction of the sorted values, linear between neighbours (position (n - 1) * fraction); NaN
/// when there are none. Cost: a sort.
double quantile(std::vector<double> values, double fraction);

// ---- Measured numbers as files keep them: no more decimal digits than mean something.
//
//     with_digits(12.3456789, kTimeDigits);  // 12.346

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
