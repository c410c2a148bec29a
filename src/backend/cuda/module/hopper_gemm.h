#pragma once
/// \file
/// Declares the kernels of provider `hopper`: GEMMs for Hopper (sm_90a) whose operands may have lines at any
/// address of an element.
///
/// Blocks are persistent. One warpgroup fills tiles of A and B in shared memory, two compute 64 rows of a
/// tile each (wgmma). The tensor memory accelerator loads operands whose address and distance of lines are
/// multiples of 16 bytes. It takes no others, also with a first element that is not at such a multiple; of
/// those, two warpgroups load aligned pieces of 16 bytes, shift them, and write them where the accelerator
/// would. C is put together in shared memory at the distance from 16 bytes that it has in global memory, and
/// stored in aligned pieces.
#include "backend/cuda/module.h"

namespace kscout::cuda {

/// Prepares a product, C = epilogue(alpha * A * B) for elements of bf16 or fp16, without batches and beta; a
/// grouped GEMM; or a convolution (hopper_conv.h).
///
/// The rows of all groups of a grouped GEMM are in the arguments of one launch, so nothing is copied to the
/// device. A tile has rows of one group: what it loads of the next group is not stored.
CallStatus prepare_hopper(const AnyShape& shape, std::span<const std::int32_t> axes,
                          std::uint64_t workspace_limit, Matmul** matmul);

}  // namespace kscout::cuda
