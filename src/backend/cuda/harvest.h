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

namespace kscout {

struct HarvestOptions {
  int suggestions = 64;        ///< number of suggestions to request of cuBLASLt per problem
  std::size_t widen = 256;     ///< maximum number of additional configs per signature
  std::uint64_t seed = 1;      ///< seed for choosing `widen` algorithms of cuBLASLt when more exist
  bool deterministic = false;  ///< of cuDNN: leave out configs that may give other bits in each run
  /// Of cuDNN: description of a GPU by describe_cudnn_gpu(), with which none is needed here; empty: the GPU
  /// of this machine.
  std::string gpu = {};
};

/// Configs of one signature, in the order in which they were found.
struct Harvest {
  Signature signature;
  std::size_t problems = 0;
  std::vector<KernelConfig> suggested;  ///< listed by a heuristic for some problem
  /// Configs that the library accepts for some problem. Of cuBLASLt each differs from a suggested algorithm
  /// in one attribute, or has an algorithm id that was never suggested; of cuDNN they are values of knob
  /// kernel_cfg of engines that compile at run time.
  std::vector<KernelConfig> widened;
  std::size_t refused = 0;  ///< such configs that the library refused for all tested problems
  std::size_t barred = 0;   ///< listed configs that numerical_refusal() excludes
  std::size_t unnamed = 0;  ///< listed configs with knobs that no axis holds
};

/// One entry per signature of the problems, which are GEMMs or convolutions of one direction. Throws
/// invalid_argument for others, unsupported (no GPU, no library, or types that it does not compute),
/// device_failure.
std::vector<Harvest> harvest(const std::vector<Problem>& problems, const HarvestOptions& options);

/// Rule sets `harvested` (the suggested configs) and `widened` (all), in the format of
/// docs/formats/family.md.
std::string rule_set_text(const std::vector<Harvest>& harvests);

/// The GPU of this machine as text, for HarvestOptions::gpu. Opens the GPU.
std::string describe_cudnn_gpu();

namespace cuda {

/// Whether cuBLASLt takes the algorithm for a shape.
bool takes(Module& module, const MatmulShape& shape, const CublasLtConfig& config);
/// The harvest of convolutions of one signature.
Harvest harvest_convs(const std::vector<Problem>& problems, const HarvestOptions& options);

}  // namespace cuda

}  // namespace kscout
