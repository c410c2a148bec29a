#pragma once
/// \file
/// Runs configs of providers `cublaslt`, `cudnn`, `hopper` and `groupwise` on an NVIDIA GPU, and those of
/// provider `cutlass` from kernel libraries on KSCOUT_LIBRARY_PATH (backend `cuda`).
///
/// A process loads nothing of CUDA before it prepares the first config. device() and versions() query the
/// driver in a forked child, so that a program that lists, selects or forks workers has no GPU context.
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <kscout/backend.h>
#include <kscout/grouped_gemm.h>
#include <kscout/problem.h>

#include "backend/cuda/module.h"
#include "backend/library/library_backend.h"
#include "instruments/instruments.h"
#include "provider/cublaslt/cublaslt.h"
#include "provider/cudnn/cudnn.h"

namespace kscout {

Backend& cuda_backend();

/// Why the module or a GPU's driver is missing; empty when both are present. Reads files only.
std::string cuda_missing();

/// Sets the GPU of backend `cuda`, out of those that the process sees; the default is 0. Call it before the
/// first prepare(). Device facts, and therefore the model that a selector finds, are those of this GPU.
void use_cuda_device(int ordinal);
int used_cuda_device();

namespace cuda {

/// Path of libkscout_cuda.so: KSCOUT_CUDA_MODULE, beside the program, or in ../lib/kscout. Empty when absent.
std::filesystem::path module_file();
/// Loads the module once. Throws unsupported when it is absent, corrupt_data when it has another version.
Module& load_module();
/// Loads the module and opens the device. Throws the errors of load_module(), and device_failure.
Module& open_module();
/// Throws unsupported or device_failure with the module's reason.
void check(Module& module, CallStatus answer);

/// Facts of the chosen GPU, read once: queries the driver in a child process while this one has not opened
/// it. References stay valid.
const Facts& gpu_facts();
const Device& gpu_device();
/// The release of cuDNN; 0: not here.
std::int32_t cudnn_release();

/// Describes a GPU. A known model gets its preset's facts, so that predictions on a laptop and on the GPU's
/// host agree; the driver supplies the facts that the preset lacks. For a partition of a GPU or an unknown
/// model, all facts come from the driver.
Device describe(const Facts& facts);
/// Entries of a measurement's provenance: driver, runtime, library.
std::map<std::string, std::string> versions_of(const Facts& facts);

// ---- Provides memory and instruments of backend `cuda`. Both are thin, because the module does the work.

Memory& gpu_memory() noexcept;
Instruments& gpu_instruments() noexcept;

}  // namespace cuda

}  // namespace kscout
