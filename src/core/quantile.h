#pragma once
/// \file
/// What lies at a fraction of some values.
///
///     const double median = quantile(values, 0.5);
#include <vector>

namespace kscout {

/// Value at a fraction of the sorted values, linear between neighbours (position (n - 1) * fraction); NaN
/// when there are none. Cost: a sort.
double quantile(std::vector<double> values, double fraction);

}  // namespace kscout
