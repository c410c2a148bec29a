#pragma once
/// \file
/// The fastest measured config of each problem of a sweep or a dataset, for verbs of kscout that keep or
/// write them. Reading takes Arrow: in kscout these verbs hand the command on to kscout-lab.
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
  double next_us = 0;     ///< of the second fastest; NaN when only one ended well
  std::size_t timed = 0;  ///< configs that were timed
};

struct MeasuredBests {
  Device device;
  std::map<std::string, std::string> metadata;  ///< of the sweep: backend, kscout_version, ...
  std::vector<MeasuredBest> best;               ///< of the problems that have an ok row, in their order
};

/// Reads a dataset (.parquet) or the folder of a sweep.
using ReadBests = MeasuredBests (*)(const std::string& path);

/// In kscout-lab: read_sweep and read_dataset. Throws invalid_argument for CSV, which names no
/// device, and when no row is ok.
MeasuredBests read_bests(const std::string& path);

/// The verbs; without `read`, measurements start kscout-lab.
void setup_db(CLI::App& verb, ReadBests read);
void setup_export(CLI::App& verb, ReadBests read);

}  // namespace kscout::cli
