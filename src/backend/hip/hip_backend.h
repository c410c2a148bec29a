#pragma once
/// \file
/// Backend `hip`: the memory, queues and clock of an AMD GPU, for kernel libraries that name it. It has no
/// kernels of its own; `kscout generate --provider ck_tile` makes libraries that do.
///
///     const Device& gpu = backend("hip").device();               // asked in a child: opens no GPU here
///     LibraryBackend library(read_library_index("ck.kscout-library.json"));
///     library.prepare(problem, config)->run(buffers, workspace);  // buffers in backend("hip").memory()
///
/// Nothing of HIP is loaded into a process before it first touches the memory or makes a kernel ready.
#include <string>

#include <kscout/backend.h>

#include "measure/instruments.h"

namespace kscout {

Backend& hip_backend();

/// Whether a HIP runtime and an AMD GPU's driver may be here; empty when they may. Reads files only.
std::string hip_missing();

/// Which GPU of those that the process sees backend `hip` uses; 0 unless said before it is opened.
void use_hip_device(int ordinal);
int used_hip_device();
/// How many there are. Asks in a child process.
int hip_device_count();
/// Opens the chosen GPU for the calling thread. Throws unsupported (no runtime, no GPU), device_failure.
void open_hip_device();

}  // namespace kscout

namespace kscout::hip {

// ---- Memory and instruments of backend `hip`. Without device code of our own, operands are made and sums
// are added up on the CPU and copied; what is timed is timed by the GPU's own events.

Memory& hip_memory() noexcept;
Instruments& hip_instruments() noexcept;

}  // namespace kscout::hip
