#pragma once
/// \file
/// Finds the engine configs that cuDNN has for convolutions of a signature: those that its heuristics list
/// for many problems, and kernels that engines compile at run time.
///
///     const auto found = harvest(problems, {});
///     std::string rules = rule_set_text(found);      // a file for --rules
///
/// Opens the GPU in this process but launches nothing: the library reports which configs it accepts.
#include <string>
#include <vector>

#include <kscout/any_problem.h>
#include <kscout/config.h>
#include <kscout/types.h>

namespace kscout {

struct HarvestOptions {
  std::size_t widen = 256;     ///< maximum number of additional configs per signature
  bool deterministic = false;  ///< leaves out configs that may give other bits in each run
  /// Description of a GPU by describe_cudnn_gpu(), with which none is needed here; empty: the GPU of this
  /// machine.
  std::string gpu = {};
};

/// Configs of one signature, in the order in which they were found.
struct Harvest {
  Signature signature;
  std::size_t problems = 0;
  std::vector<KernelConfig> suggested;  ///< listed by a heuristic for some problem
  /// Values of knob kernel_cfg, of engines that compile at run time, that the library accepts for some
  /// problem.
  std::vector<KernelConfig> widened;
  std::size_t refused = 0;  ///< such values that the library refused for all tested problems
  std::size_t barred = 0;   ///< listed configs that numerical_refusal() excludes
  std::size_t unnamed = 0;  ///< listed configs with knobs that no axis holds
};

/// One entry per signature of the problems, which are convolutions of one direction. Throws invalid_argument
/// for others, unsupported (no GPU, no library, or types that it does not compute), device_failure.
std::vector<Harvest> harvest(const std::vector<Problem>& problems, const HarvestOptions& options);

/// Rule sets `harvested` (the suggested configs) and `widened` (all), in the format of
/// docs/formats/family.md.
std::string rule_set_text(const std::vector<Harvest>& harvests);

/// The GPU of this machine as text, for HarvestOptions::gpu. Opens the GPU.
std::string describe_cudnn_gpu();

}  // namespace kscout
