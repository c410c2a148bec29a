#pragma once
/// \file
/// Declares convolutions on the tensor cores of Hopper (sm_90a): one group, bf16 or fp16, images with
/// channels last.
///
/// They are implicit GEMMs of the tiles of hopper_gemm.h. The tensor memory accelerator gathers the pixels of
/// a tile: one load in im2col mode reads up to 64 channels of consecutive pixels for one element of the
/// filter, steps over the ends of rows and images, and writes zeros for what is outside of the image.
///
///     direction        A, its rows          B, its columns              K
///     conv_fwd         input, pixels        filter, output channels     filter elements x input channels
///     conv_bwd_data    output, pixels       filter, input channels      filter elements x output channels
///     conv_bwd_weight  output, its channels input, filter elements x    pixels of the output
///                                           its channels
///
/// conv_bwd_data with a stride would need a step between elements of the output image, which the accelerator
/// does not have. hopper_conv_tiles.h has all limits. Sums are in fp32; split-K slices are added in a fixed
/// order.
#include "backend/cuda/module.h"
#include "provider/hopper/hopper.h"

namespace kscout::cuda {

/// Prepares a convolution; unsupported for one that the kernel does not take (hopper_conv_refusal).
CallStatus prepare_hopper_conv(const ConvShape& shape, const HopperConfig& kernel, Matmul** matmul);

}  // namespace kscout::cuda
