#pragma once
/// \file
/// Queries NVIDIA's nvMatmulHeuristics as a peer: its suggestions for a problem, and the available CUTLASS
/// configs nearest to them.
///
///     std::string why;
///     if (auto peer = MatmulHeuristics::open(device, why))
///       for (const SuggestedKernel& kernel : peer->suggest(problem, 8))
///         if (const Matched found = nearest(kernel, existing); !found.configs.empty())
///           existing[found.configs[0]]
///
/// Loads the library on demand (KSCOUT_NVMMH, else the dynamic loader's search path); nothing links it. Uses
/// the library's preset of the device, so that it opens no GPU.
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <kscout/config.h>
#include <kscout/device.h>
#include <kscout/problem.h>

namespace kscout::bench {

/// A kernel in the library's terms: rows and columns of C.
struct SuggestedKernel {
  int tile_m = 0, tile_n = 0, tile_k = 0;
  int cluster_m = 1, cluster_n = 1;
  int stages = 0, split_k = 1, swizzle = 1;
  bool along_n = true;  ///< blocks take consecutive tiles along the columns of C
  bool operator==(const SuggestedKernel&) const = default;
};

class MatmulHeuristics {
 public:
  /// Null when the library is missing or returns an error; `why` is then set.
  static std::unique_ptr<MatmulHeuristics> open(const Device& device, std::string& why);
  ~MatmulHeuristics();
  MatmulHeuristics(const MatmulHeuristics&) = delete;
  MatmulHeuristics& operator=(const MatmulHeuristics&) = delete;

  /// Its best kernels of CUTLASS 3, best first, at most `count`; none for element types other than fp16, bf16
  /// and 8-bit floats.
  std::vector<SuggestedKernel> suggest(const GemmProblem& problem, int count);
  /// The library's version ("0.1.0") and the device preset in use.
  const std::string& version() const noexcept { return version_; }

 private:
  struct Library;
  explicit MatmulHeuristics(std::unique_ptr<Library> library);
  std::unique_ptr<Library> library_;
  std::string version_;
};

struct Matched {
  std::vector<std::size_t>
      configs;         ///< positions of the equally near configs, in input order; empty without input
  bool exact = false;  ///< tile, cluster, split-K slices, swizzle and raster are as suggested
};

/// The configs of provider cutlass nearest to a suggestion: by tile first, then split-K slices, cluster,
/// depth of a stage, swizzle and raster. Stages do not count (kernels here take as many as fit, and so do the
/// suggestions), nor do properties that a suggestion leaves open (cooperative or ping-pong). Configs of
/// CUTLASS 2 come after all others.
Matched nearest(const SuggestedKernel& kernel, std::span<const KernelConfig> existing);

}  // namespace kscout::bench
