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
/// Number of GPUs. Queries the driver in a child process.
int cuda_device_count();

namespace cuda {

/// Path of libkscout_cuda.so: KSCOUT_CUDA_MODULE, beside the program, or in ../lib/kscout. Empty when absent.
std::filesystem::path module_file();
/// Loads the module once. Throws unsupported when it is absent, corrupt_data when it has another version.
Module& load_module();
/// Loads the module and opens the device. Throws the errors of load_module(), and device_failure.
Module& open_module();
/// Throws unsupported or device_failure with the module's reason.
void check(Module& module, CallStatus answer);

/// Prepares a config of cuDNN on the open GPU: takes its plan from the pool (cudnn_plans.h), or builds it,
/// which may compile code. The n-th suggestion is the n-th config of the library's list that
/// numerical_refusal() and the family's rules admit; the first suggestion is the first one that can be built.
/// Throws unsupported.
/// `deterministic`: only engines that give equal bits in every run, also among suggestions.
std::unique_ptr<Launch> prepare_cudnn(const ConvProblem& problem, const CudnnConfig& config,
                                      const Device& device, bool deterministic = false);
/// Does the slow part of prepare_cudnn() for configs of one problem, in as many threads as the process has
/// CPUs; see Backend::prepare_ahead.
std::vector<std::string> prepare_cudnn_ahead(const ConvProblem& problem, std::span<const CudnnConfig> configs,
                                             const Device& device, double seconds);

/// Backend::suggestions: of cuBLASLt (`release`: cublasLtGetVersion) or of cuDNN.
std::vector<KernelConfig> library_suggestions(ProblemRef problem, std::size_t count, std::int32_t release);

/// Converts a problem to the module's form.
MatmulShape shape_of(const GemmProblem& problem);
MatmulShape shape_of(const GroupedGemmProblem& problem);
ConvShape shape_of(const ConvProblem& problem);

/// Converts an algorithm of this release of the library (cublasLtGetVersion) to a config.
CublasLtConfig config_of(const Algorithm& algorithm, std::int32_t version);

/// The same in reverse.
Algorithm algorithm_of(const CublasLtConfig& config);

/// Describes a GPU. A known model gets its preset's facts, so that predictions on a laptop and on the GPU's
/// host agree; the driver supplies the facts that the preset lacks. For a partition of a GPU or an unknown
/// model, all facts come from the driver.
Device describe(const Facts& facts);
/// Entries of a measurement's provenance: driver, runtime, library.
std::map<std::string, std::string> versions_of(const Facts& facts);

}  // namespace cuda
}  // namespace kscout

namespace kscout::cuda {

// ---- Provides memory and instruments of backend `cuda`. Both are thin, because the module does the work.

Memory& gpu_memory() noexcept;
Instruments& gpu_instruments() noexcept;

}  // namespace kscout::cuda

namespace kscout {

// ---- Finds the algorithms that cuBLASLt has for a signature: those that its heuristic suggests for many
// problems, and their neighbours.
//
//     const auto found = harvest(problems, {});
//     std::string rules = rule_set_text(found);      // a file for --rules
//
// Opens the GPU in this process but launches nothing: the library reports which algorithms it accepts.

struct HarvestOptions {
  int suggestions = 64;     ///< number of suggestions to request per problem
  std::size_t widen = 256;  ///< maximum number of additional algorithms per signature
  std::uint64_t seed = 1;   ///< seed for choosing `widen` algorithms when more exist
};

/// Algorithms of one signature, in the order in which they were found.
struct Harvest {
  Signature signature;
  std::size_t problems = 0;
  std::vector<CublasLtConfig> suggested;  ///< suggested by the heuristic for some problem
  /// Algorithms that the library accepts for some problem. Each differs from a suggested one in one
  /// attribute, or has an algorithm id that was never suggested.
  std::vector<CublasLtConfig> widened;
  std::size_t refused = 0;  ///< neighbours that the library refused for all tested problems
};

/// One entry per signature of the problems. Throws unsupported (no GPU, or signatures that the library does
/// not compute), device_failure.
std::vector<Harvest> harvest(const std::vector<Problem>& problems, const HarvestOptions& options);

/// Rule sets `harvested` (the suggested algorithms) and `widened` (all), in the format of
/// docs/formats/family.md.
std::string rule_set_text(const std::vector<Harvest>& harvests);

// ---- Finds the engine configs that cuDNN has for convolutions of one direction.
//
//     const auto found = harvest_convs(problems, {});
//     std::string rules = rule_set_text(found);
//
// Needs no GPU with a description of one: describe_cudnn_gpu() writes it on a machine that has the GPU, and
// only the library is needed to read it.

struct ConvHarvestOptions {
  std::size_t widen = 256;     ///< maximum number of additional configs per signature
  bool deterministic = false;  ///< leave out configs that may give other bits in each run
  std::string gpu = {};        ///< description of a GPU; empty: the GPU of this machine
};

/// Configs of one signature, in the order in which they were found.
struct ConvHarvest {
  Signature signature;
  std::size_t problems = 0;
  std::vector<CudnnConfig> suggested;  ///< listed by mode a, b or fallback for some problem
  /// Values of knob kernel_cfg that engines compiling at run time accept for some problem, and that no list
  /// had.
  std::vector<CudnnConfig> widened;
  std::size_t refused = 0;  ///< such values that the library refused for all tested problems
  std::size_t barred = 0;   ///< listed configs that numerical_refusal() excludes
  std::size_t unnamed = 0;  ///< listed configs with knobs that no axis holds
};

/// One entry per signature of the problems. Throws invalid_argument for problems of several directions,
/// unsupported (no GPU, no library, or types that it does not compute), device_failure.
std::vector<ConvHarvest> harvest_convs(const std::vector<Problem>& problems,
                                       const ConvHarvestOptions& options);

/// Rule sets `harvested` and `widened`, as for GEMMs.
std::string rule_set_text(const std::vector<ConvHarvest>& harvests);

/// The GPU of this machine as text, for ConvHarvestOptions::gpu. Opens the GPU.
std::string describe_cudnn_gpu();

}  // namespace kscout
