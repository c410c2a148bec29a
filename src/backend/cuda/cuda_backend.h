#pragma once
/// \file
/// Backend `cuda`: runs configs of provider `cublaslt` on an NVIDIA GPU, and those of provider `cutlass` from
/// kernel libraries on KSCOUT_LIBRARY_PATH.
///
/// Nothing of CUDA is loaded into a process before it makes the first config ready: device() and versions()
/// ask the driver in a forked child, so that a program that lists, selects or forks workers has no GPU
/// context.
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <kscout/backend.h>
#include <kscout/problem.h>

#include "backend/cuda/module.h"
#include "backend/library/library_backend.h"
#include "measure/instruments.h"
#include "provider/cublaslt/cublaslt.h"

namespace kscout {

Backend& cuda_backend();

/// Whether the module and a GPU's driver are here; empty when they are. Reads files only.
std::string cuda_missing();

/// Which GPU of those that the process sees backend `cuda` uses; 0 unless said before the first prepare().
/// Its facts, and so the model that a selector finds, are those of the chosen one.
void use_cuda_device(int ordinal);
int used_cuda_device();
/// How many there are. Asks in a child process.
int cuda_device_count();

namespace cuda {

/// libkscout_cuda.so: KSCOUT_CUDA_MODULE, beside the program, or in ../lib/kscout. Empty path when absent.
std::filesystem::path module_file();
/// Loaded once. Throws unsupported when it is not here, corrupt_data when it is of another version.
Module& load_module();
/// The same with the device open. Throws device_failure as well.
Module& open_module();
/// Throws unsupported or device_failure with the module's reason.
void check(Module& module, CallStatus answer);

/// The problem as the module takes it.
MatmulShape shape_of(const GemmProblem& problem);

/// An algorithm of this release of the library (cublasLtGetVersion) as a config.
CublasLtConfig config_of(const Algorithm& algorithm, std::int32_t version);

/// A known model gets its preset's facts, so that what a laptop predicts for it and what its host predicts
/// agree; the driver fills what the preset leaves open. A part of a GPU, or an unknown one, is described by
/// the driver alone.
Device describe(const Facts& facts);
/// Fields of Measurement's provenance: driver, runtime, library.
std::map<std::string, std::string> versions_of(const Facts& facts);

}  // namespace cuda
}  // namespace kscout

namespace kscout::cuda {

// ---- Memory and instruments of backend `cuda`: thin, since the work is done in the module.

Memory& gpu_memory() noexcept;
Instruments& gpu_instruments() noexcept;

}  // namespace kscout::cuda

namespace kscout {

// ---- Kernel libraries of backend `cuda`: what runs configs of providers that are compiled (cutlass).
//
//     std::string why;
//     LibraryBackend* const holder = CudaLibraries::here().holder(signature, config, &why);
//     if (holder) launch = holder->prepare(problem, config);

/// Those on KSCOUT_LIBRARY_PATH that take memory of backend `cuda`. Their indexes are read on the first
/// question; a library is opened by its first prepare().
class CudaLibraries {
 public:
  static CudaLibraries& here();

  /// The library that has the kernel, or null; `why` then says so.
  LibraryBackend* holder(const Signature& signature, const KernelConfig& config, std::string* why) const;
  /// "library.NAME": checksum of each, for a measurement's provenance.
  std::map<std::string, std::string> versions() const;

 private:
  CudaLibraries();
  std::vector<std::unique_ptr<LibraryBackend>> libraries_;
};

// ---- Which algorithms cuBLASLt has for a signature: those that its heuristic names over many problems, and
// what lies around them.
//
//     const auto found = harvest(problems, {});
//     std::string rules = rule_set_text(found);      // a file for --rules
//
// Opens the GPU in this process. Launches nothing: the library says what it takes.

struct HarvestOptions {
  int suggestions = 64;     ///< asked of the heuristic for each problem
  std::size_t widen = 256;  ///< most algorithms beside the suggested ones, per signature
  std::uint64_t seed = 1;   ///< decides which, when there are more
};

/// Algorithms of one signature, in the order in which they were found.
struct Harvest {
  Signature signature;
  std::size_t problems = 0;
  std::vector<CublasLtConfig> suggested;  ///< named by the heuristic for some problem
  std::vector<CublasLtConfig> widened;  ///< one attribute away from a suggested one, or of an algorithm that
                                        ///< was never suggested; taken by the library for some problem
  std::size_t refused = 0;              ///< neighbours that the library took for none of the problems asked
};

/// One entry per signature of the problems. Throws unsupported (no GPU, or signatures that the library does
/// not compute), device_failure.
std::vector<Harvest> harvest(const std::vector<GemmProblem>& problems, const HarvestOptions& options);

/// Rule sets `harvested` (what was suggested) and `widened` (both), as docs/formats/family.md describes them.
std::string rule_set_text(const std::vector<Harvest>& harvests);

}  // namespace kscout
