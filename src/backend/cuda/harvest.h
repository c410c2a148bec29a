#pragma once
/// \file
/// Which algorithms cuBLASLt has for a signature: those that its heuristic names over many problems, and what
/// lies around them.
///
///     const auto found = harvest(problems, {});
///     std::string rules = rule_set_text(found);      // a file for --rules
///
/// Opens the GPU in this process. Launches nothing: the library says what it takes.
#include <cstdint>
#include <string>
#include <vector>

#include <kscout/problem.h>

#include "provider/cublaslt/cublaslt.h"

namespace kscout {

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
