#pragma once
/// \file
/// Runs configs of provider `native` on this machine's cores (backend `cpu`).
#include <memory>
#include <span>

#include <kscout/backend.h>

#include "provider/native/native.h"

namespace kscout {

Backend& cpu_backend();

/// The launches of the kernels of some ops.
struct CpuKernels {
  std::span<const Op> ops;
  /// As Backend::prepare, for a config that is not refused; its threads are there.
  std::unique_ptr<Launch> (*prepare)(ProblemRef problem, const KernelConfig& config);
};
/// Launches of operations that a program links in addition: it defines this function. None otherwise.
std::span<const CpuKernels> further_cpu_kernels() noexcept;

/// Pins the calling thread and the kernels' threads to separate cores (`true`), or lets the system move them.
/// For measuring; costs system calls.
void pin_cpu_threads(bool pinned);

/// Whether this machine has an instruction set; true for `scalar`.
bool machine_has(NativeIsa isa) noexcept;

}  // namespace kscout
