#pragma once
/// \file
/// The program that runs kernels for a sweep: `kscout-worker --sweep DIR --cpus 0-1 --device 0 --parent PID`.
///
/// Reads assignments from standard input and answers on standard output (messages.h). Everything that a
/// kernel or a driver prints goes to standard error. Ends when its input does, and with the process that
/// started it.
#include <functional>
#include <string_view>

#include <kscout/backend.h>

#include "sweep/plan.h"

namespace kscout {

/// What a worker may use. The product's own is {kscout::backend, provider_space}; tests bring faulty ones.
struct WorkerParts {
  /// `device`: which one of several of its kind; workers count from 0.
  std::function<Backend&(std::string_view name, int device)> backend;
  SpaceLookup space;
};

/// The whole program; returns its exit code: 0 done, 2 wrong arguments, 4 failed (the sweep is told why), 5
/// the device was lost.
int run_worker(int argc, char** argv, const WorkerParts& parts);

}  // namespace kscout
