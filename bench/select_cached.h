#pragma once
/// \file
/// The part of bench/select.cpp about choices that were made before.
#include <string>

namespace kscout::bench {

/// Measures hits of the decision cache by number of problems in use and by threads, prints the table, and
/// returns the RESULT lines.
std::string measure_cached();

}  // namespace kscout::bench
