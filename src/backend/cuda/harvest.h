#pragma once
/// \file
/// Finds the algorithms that cuBLASLt and cuDNN have for a signature: those that their heuristics suggest for
/// many problems, and their neighbours.
///
///     const auto found = harvest(problems, {});      // or harvest_convs()
///     std::string rules = rule_set_text(found);      // a file for --rules
///
/// Opens the GPU in this process but launches nothing: the library reports which algorithms it accepts.
#include <cstdint>
#include <string>
#include <vector>

#include <kscout/any_problem.h>
#include <kscout/types.h>

#include "backend/cuda/module.h"
#include "provider/cublaslt/cublaslt.h"
#include "provider/cudnn/cudnn.h"

namespace kscout {

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

namespace cuda {
/// Whether cuBLASLt takes the algorithm for a shape.
bool takes(Module& module, const MatmulShape& shape, const CublasLtConfig& config);
}  // namespace cuda

/// One entry per signature of the problems. Throws unsupported (no GPU, or signatures that the library does
/// not compute), device_failure.
std::vector<Harvest> harvest(const std::vector<Problem>& problems, const HarvestOptions& options);

/// Rule sets `harvested` (the suggested algorithms) and `widened` (all), in the format of
/// docs/formats/family.md.
std::string rule_set_text(const std::vector<Harvest>& harvests);

// ---- The engine configs of cuDNN, for convolutions of one direction. Needs no GPU with a description of
// one: describe_cudnn_gpu() writes it on a machine that has the GPU, and only the library is needed to read
// it.

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
