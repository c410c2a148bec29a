#pragma once
/// \file
/// Backend `cpu`: runs configs of provider `native` on this machine's cores.
#include <kscout/backend.h>

#include "provider/native/native.h"

namespace kscout {

Backend& cpu_backend();

/// Ties the calling thread and the kernels' threads to cores of their own (`true`) or lets the system move
/// them. For measuring; costs system calls.
void pin_cpu_threads(bool pinned);

/// Whether this machine has an instruction set; `scalar` always.
bool machine_has(NativeIsa isa) noexcept;

}  // namespace kscout
