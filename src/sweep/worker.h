#pragma once
/// \file
/// Runs kernels for a sweep, as program `kscout-worker --sweep DIR --cpus 0-1 --device 0 --parent PID`.
///
/// Reads assignments from standard input and replies on standard output (messages.h). Output of kernels and
/// drivers goes to standard error. Ends when its input ends, or with the process that started it.
#include <functional>
#include <string_view>

#include <kscout/backend.h>

#include "sweep/plan.h"

namespace kscout {

/// What a worker may use: {kscout::backend, provider_space} in kscout-worker; tests pass faulty ones.
struct WorkerParts {
  /// Returns a backend. `device` chooses one of several devices of a kind; it counts from 0.
  std::function<Backend&(std::string_view name, int device)> backend;
  SpaceLookup space;
};

/// Runs the whole program. Returns its exit code: 0 done, 2 wrong arguments, 4 failed (the sweep received the
/// reason), 5 the device was lost, 6 the process of the callables has ended.
int run_worker(int argc, char** argv, const WorkerParts& parts);

}  // namespace kscout
