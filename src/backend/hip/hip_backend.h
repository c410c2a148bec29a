#pragma once
/// \file
/// Provides the memory, streams and clock of an AMD GPU for kernel libraries that name it (backend `hip`).
/// The backend has no kernels of its own; `kscout generate --provider ck_tile` makes libraries with kernels.
///
///     const Device& gpu = backend("hip").device();               // queried in a child: opens no GPU here
///     LibraryBackend library(read_library_index("ck.kscout-library.json"));
///     library.prepare(problem, config)->run(buffers, workspace);  // buffers in backend("hip").memory()
///
/// A process loads nothing of HIP before it first uses the memory or prepares a kernel.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include <kscout/backend.h>

#include "instruments/instruments.h"

namespace kscout::hip {

// ---- Loads the functions of AMD's HIP runtime at first use. Neither links to HIP nor includes its headers:
// the few types are declared here as in the runtime's public C interface.
//
//     const HipApi& hip = hip_api();                 // loads libamdhip64.so once
//     hip_check(hip.SetDevice(0), "opening the GPU");
//
// Source: ROCm's public header hip/hip_runtime_api.h, 6.0 and later: names, parameter order, the numbers of
// hipError_t and hipMemcpyKind, and the layout of hipDeviceProp_tR0600. That struct changed in 6.0. The
// function that fills the new struct has the version in its name, so an older runtime is refused by a missing
// symbol and never misread.

using Status = int;  ///< hipError_t
inline constexpr Status kSuccess = 0, kNotReady = 600;

enum class CopyKind : int { host_to_device = 1, device_to_host = 2, device_to_device = 3 };

/// hipDeviceProp_tR0600: the fields that are read, at their offsets; the other members are padding.
struct Properties {
  char name[256];
  char uuid_and_luid[32];
  std::size_t total_memory;
  std::size_t shared_per_block;
  int registers_per_block;
  int wave_lanes;
  char between_1[36];
  int clock_khz;
  char between_2[36];
  int units;
  char between_3[224];
  int l2_bytes;
  char between_4[4];
  int threads_per_unit;
  char between_5[532];
  char arch[256];  ///< gcnArchName: "gfx942:sramecc+:xnack-"
  char behind[4096];
};
static_assert(offsetof(Properties, total_memory) == 288 && offsetof(Properties, wave_lanes) == 308 &&
              offsetof(Properties, clock_khz) == 348 && offsetof(Properties, units) == 388 &&
              offsetof(Properties, l2_bytes) == 616 && offsetof(Properties, threads_per_unit) == 624 &&
              offsetof(Properties, arch) == 1160);

/// Each member is the runtime's function hip<Name>. Streams and events are opaque pointers.
struct Functions {
  Status (*Init)(unsigned flags);
  Status (*RuntimeGetVersion)(int* version);
  Status (*DriverGetVersion)(int* version);
  Status (*GetDeviceCount)(int* count);
  Status (*GetDevicePropertiesR0600)(Properties* properties, int device);
  Status (*SetDevice)(int device);
  Status (*Malloc)(void** memory, std::size_t bytes);
  Status (*Free)(void* memory);
  Status (*MemcpyAsync)(void* to, const void* from, std::size_t bytes, CopyKind kind, void* stream);
  Status (*Memcpy2DAsync)(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                          std::size_t width, std::size_t height, CopyKind kind, void* stream);
  Status (*MemsetAsync)(void* to, int value, std::size_t bytes, void* stream);
  Status (*Memset2DAsync)(void* to, std::size_t pitch, int value, std::size_t width, std::size_t height,
                          void* stream);
  Status (*EventCreate)(void** event);
  Status (*EventRecord)(void* event, void* stream);
  Status (*EventSynchronize)(void* event);
  Status (*EventElapsedTime)(float* ms, void* start, void* stop);
  Status (*StreamSynchronize)(void* stream);
  Status (*StreamQuery)(void* stream);
  Status (*GetLastError)();
  const char* (*GetErrorString)(Status status);
};

/// KSCOUT_HIP_LIBRARY, else libamdhip64.so from the loader's path or /opt/rocm.
std::filesystem::path named_library();
/// Loads the runtime once and never unloads it. Throws unsupported: no library, or a missing symbol.
const Functions& api();
/// Throws device_failure with the runtime's text.
void check(Status status, const char* what);

}  // namespace kscout::hip

namespace kscout {

Backend& hip_backend();

/// Why a HIP runtime or an AMD GPU's driver is missing; empty when both may be present. Reads files only.
std::string hip_missing();

/// The GPU of backend `hip`, out of those that the process sees; the default is 0.
int used_hip_device();
/// Opens the chosen GPU for the calling thread. Throws unsupported (no runtime, no GPU), device_failure.
void open_hip_device();

}  // namespace kscout

namespace kscout::hip {

// ---- Provides memory and instruments of backend `hip`. The backend has no device code, so the CPU generates
// operands and computes sums, and data are copied; times come from the GPU's own events.

Memory& hip_memory() noexcept;
Instruments& hip_instruments() noexcept;

}  // namespace kscout::hip
