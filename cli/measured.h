#pragma once
/// \file
/// Finds the fastest measured config of each problem of a sweep or a dataset, for verbs of kscout that store
/// or export it. Reading needs Arrow, so these verbs start kscout-lab for it.
#include <map>
#include <string>
#include <vector>

#include <kscout/any_problem.h>
#include <kscout/config.h>
#include <kscout/device.h>

namespace CLI {
class App;
}

namespace kscout::cli {

struct MeasuredBest {
  Problem problem;
  KernelConfig config;
  double time_us = 0;
  double next_us = 0;     ///< of the second fastest; NaN when only one row is ok
  std::size_t timed = 0;  ///< number of timed configs
};

struct MeasuredBests {
  Device device;
  std::map<std::string, std::string> metadata;  ///< of the sweep: backend, kscout_version, ...
  std::vector<MeasuredBest> best;               ///< of the problems that have an ok row, in the file's order
};

/// Reads a dataset (.parquet) or the folder of a sweep.
using ReadBests = MeasuredBests (*)(const std::string& path);

/// The `read` of kscout-lab: calls read_sweep or read_dataset. Throws invalid_argument for CSV, which names
/// no device, and when no row is ok.
MeasuredBests read_bests(const std::string& path);

/// Set up the verbs; without `read`, they start kscout-lab for measurements.
void setup_db(CLI::App& verb, ReadBests read);
void setup_export(CLI::App& verb, ReadBests read);

}  // namespace kscout::cli
