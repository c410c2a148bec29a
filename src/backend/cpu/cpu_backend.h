#pragma once
/// \file
/// Runs configs of provider `native` on this machine's cores (backend `cpu`).
#include <kscout/backend.h>

#include "provider/native/native.h"

namespace kscout {

Backend& cpu_backend();

/// Pins the calling thread and the kernels' threads to separate cores (`true`), or lets the system move them.
/// For measuring; costs system calls.
void pin_cpu_threads(bool pinned);

/// Whether this machine has an instruction set; true for `scalar`.
bool machine_has(NativeIsa isa) noexcept;

}  // namespace kscout
