#pragma once
/// \file
/// Declares the kernels of provider `groupwise`: grouped and depthwise convolutions of bf16 or fp16, images
/// with channels last, on GPUs from sm_80.
///
/// `gemm` kernels compute the implicit GEMM of each group on the tensor cores (groupwise_gemm.cuh),
/// `depthwise` kernels one channel in each lane (groupwise_depthwise.cuh). Merged groups have a copy of the
/// filter in the workspace. Split-K writes sums of parts in
/// fp32 to the workspace, which a second kernel adds in a fixed order.
#include "backend/cuda/module.h"
#include "provider/groupwise/groupwise.h"

namespace kscout::cuda {

struct GemmJob;
struct DepthwiseJob;

/// Prepares a convolution; unsupported for one that the kernel does not take.
CallStatus prepare_groupwise(const AnyShape& shape, std::span<const std::int32_t> axes,
                             std::uint64_t workspace_limit, Matmul** matmul);

// ---- Kernels by their template arguments, in sources of their own.

template <class Job>
struct ConvKernel {
  void (*function)(Job) = nullptr;  ///< null: no such kernel
  int threads = 0;
  int shared_bytes = 0;  ///< of a gemm
};

/// `vector`: elements of a load.
ConvKernel<GemmJob> groupwise_gemm(Direction direction, int tile_m, int tile_n, int vector);
/// `taps` 0: any filter, stride and dilation.
ConvKernel<DepthwiseJob> groupwise_depthwise(Direction direction, int vector, int pixels, int taps,
                                             int stride, bool bf16);

}  // namespace kscout::cuda
