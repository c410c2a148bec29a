#pragma once
/// \file
/// Measures kernels that are callables of another process, such as those of a kscout.Family in Python.
///
///     Backend& callables = backend("callables:cuda");   // device facts of backend cuda
///
/// The other process listens on the Unix socket that KSCOUT_CALLABLES names. It makes operands and the
/// reference, runs and times the calls, and compares results; plans, protocol and journal stay here. One JSON
/// object per line, each with one reply (docs/formats/callables.md). Only workers and plans of a sweep use
/// this backend: a choice cannot run a callable.
#include <memory>
#include <string>
#include <string_view>

#include <kscout/backend.h>

#include "measure/measured_backend.h"

namespace kscout {

/// Prefix of the backends' names; the backend of the device follows.
inline constexpr std::string_view kCallablesPrefix = "callables:";

/// Exit code of a worker whose callables have ended their process.
inline constexpr int kCallablesEnded = 6;

/// The backend of a name with the prefix. Throws invalid_argument for a device without a backend, unsupported
/// when KSCOUT_CALLABLES is not set.
Backend& callable_backend(std::string_view name);

}  // namespace kscout
