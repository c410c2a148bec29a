#pragma once
/// \file
/// What every benchmark program does: reads its options, reports errors, writes a CSV file, averages ratios.
///
///     return bench::run_bench("grouped", app, argc, argv, [&] { return run(options); });
#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <span>
#include <string>

#include <CLI/CLI.hpp>

#include <kscout/error.h>

#include "core/fail.h"

namespace kscout::bench {

inline constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

/// Geometric mean of positive values; NaN for none.
inline double geomean(std::span<const double> values) {
  double logs = 0;
  for (const double value : values) logs += std::log(value);
  return values.empty() ? kUnknown : std::exp(logs / static_cast<double>(values.size()));
}

/// Creates a CSV file with its line of names; an empty name gives a closed file, which takes no rows.
inline std::ofstream open_csv(const std::string& file, std::string_view names) {
  std::ofstream csv;
  if (file.empty()) return csv;
  csv.open(file);
  if (!csv) fail(Errc::not_found, "{}: cannot be written", file);
  csv << names << '\n';
  return csv;
}

/// Parses the command line, then returns what `run` returns: 2 after a wrong argument, 4 after another error.
template <class Run>
int run_bench(const char* name, CLI::App& app, int argc, char** argv, const Run& run) {
  CLI11_PARSE(app, argc, argv);
  try {
    return run();
  } catch (const Error& error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
    return error.code() == Errc::invalid_argument ? 2 : 4;
  }
}

}  // namespace kscout::bench
