#pragma once
/// \file
/// NVIDIA's nvMatmulHeuristics as a peer: what it suggests for a problem, and which of the CUTLASS configs
/// that exist here comes nearest to that.
///
///     std::string why;
///     if (auto peer = MatmulHeuristics::open(device, why))
///       for (const SuggestedKernel& kernel : peer->suggest(problem, 8))
///         if (const Matched found = nearest(kernel, existing); !found.configs.empty()) existing[found.configs[0]]
///
/// Its library is loaded when asked for (KSCOUT_NVMMH, else the dynamic loader's own places); nothing links
/// it. It is asked for its preset of the device, so that it opens no GPU.
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <kscout/config.h>
#include <kscout/device.h>
#include <kscout/problem.h>

namespace kscout::bench {

/// A kernel as the library describes it: rows and columns of C.
struct SuggestedKernel {
  int tile_m = 0, tile_n = 0, tile_k = 0;
  int cluster_m = 1, cluster_n = 1;
  int stages = 0, split_k = 1, swizzle = 1;
  bool along_n = true;  ///< blocks take tiles one after the other along the columns of C
  bool operator==(const SuggestedKernel&) const = default;
};

class MatmulHeuristics {
 public:
  /// Null when the library is not here or refuses; `why` then says so.
  static std::unique_ptr<MatmulHeuristics> open(const Device& device, std::string& why);
  ~MatmulHeuristics();
  MatmulHeuristics(const MatmulHeuristics&) = delete;
  MatmulHeuristics& operator=(const MatmulHeuristics&) = delete;

  /// Its best kernels of CUTLASS 3, best first, as many as it has up to `count`; none for element types that
  /// it is not asked for (others than fp16, bf16 and 8-bit floats).
  std::vector<SuggestedKernel> suggest(const GemmProblem& problem, int count);
  /// "0.1.0"; and for which device it answers.
  const std::string& version() const noexcept { return version_; }

 private:
  struct Library;
  explicit MatmulHeuristics(std::unique_ptr<Library> library);
  std::unique_ptr<Library> library_;
  std::string version_;
};

struct Matched {
  std::vector<std::size_t>
      configs;         ///< positions: those that are equally near, in the order given; empty: none given
  bool exact = false;  ///< tile, cluster, split-K slices, swizzle and raster are what was suggested
};

/// The configs of provider cutlass that come nearest: by tile first, then split-K slices, cluster, depth of a
/// stage, swizzle and raster. Stages do not count (kernels here take as many as fit, and so do the
/// suggestions), nor does what a suggestion leaves open (cooperative or ping-pong). A config of CUTLASS 2
/// stands behind every other.
Matched nearest(const SuggestedKernel& kernel, std::span<const KernelConfig> existing);

}  // namespace kscout::bench
