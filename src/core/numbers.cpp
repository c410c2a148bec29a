
#include "core/numbers.h"

#include <algorithm>
#include <limits>

namespace kscout {

double quantile(std::vector<double> values, double fraction) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::ranges::sort(values);
  const double position = static_cast<double>(values.size() - 1) * fraction;
  const auto low = static_cast<std::size_t>(position);
  const std::size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (values[high] - values[low]) * (position - static_cast<double>(low));
}

}  // namespace kscout
