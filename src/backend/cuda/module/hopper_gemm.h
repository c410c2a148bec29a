#pragma once
/// \file
/// Declares GEMM kernels for Hopper (sm_90a) that read and write lines at any address of an element.
///
/// The tensor memory accelerator needs a base and a distance of lines that are multiples of 16 bytes, but
/// takes any first element of a box. Lines whose numbers are equal modulo 8 are such an operand: the distance
/// of two of them is 8 lines. So each operand has up to eight tensor maps (classes of lines), each with the
/// offset of its first element from an aligned address, and a tile is loaded or stored in as many boxes. In
/// shared memory the lines of a tile are then in another order: rows and columns of C are put back when they
/// are stored; K has the same order in A and B.
#include <array>
#include <cstdint>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "backend/cuda/module.h"

namespace kscout::cuda {

/// A kernel of the family and how it is launched.
struct HopperConfig {
  int tile_n;   ///< 128, 192 or 256 columns of C; a tile has 128 rows
  int cluster;  ///< 1, or 2 blocks that share the loads of B
  int split_k;  ///< parts of K, which are summed in the workspace in fp32
};

/// Computes C = alpha * A * B for 16-bit elements of one type, without batches, epilogue and beta.
/// `unsupported` where the kernels cannot take the shape.
class HopperGemm {
 public:
  CallStatus prepare(const MatmulShape& shape, const HopperConfig& config) noexcept;
  std::uint64_t workspace_bytes() const noexcept;
  /// Enqueues one kernel, or two with split_k > 1.
  CallStatus run(const void* a, const void* b, void* c, double alpha, void* workspace, void* stream) noexcept;

 private:
  MatmulShape shape_ = {};
  HopperConfig config_ = {};
  int processors_ = 0;
};

}  // namespace kscout::cuda
