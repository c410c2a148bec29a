#pragma once
/// \file
/// Describes the f32 grouped convolutions of backend `cpu` (provider `native`), in three directions.
///
///     const NativeConvConfig config = NativeConvConfig::from(kernel_config);
///     if (config.threads() > cores) ...
///
/// Names follow this grammar (whole numbers without leading zeros, words as listed):
///
///     name   = "native_" op "_" dtype "_" layout "__" kernel "_" launch
///     kernel = isa "_" kind "_" mr "x" nr "_" packs
///     launch = "b" pixels "x" depth "x" channels "_t" threads_p "x" threads_k
///     packs  = "nopack" | "packx" | "packw" | "packxw"
///
/// for example native_conv_fwd_fp32_nhwgc__avx2_igemm_6x16_packw_b48x0x0_t2x1.
#include <string>

#include <kscout/provider.h>

#include "provider/native/native.h"

namespace kscout {

/// How a kernel traverses the convolution. "Result" is the tensor that the direction computes.
enum class NativeConvKind : std::int32_t {
  gemm,   ///< a 1x1 filter without strides and pads: the tiled GEMM kernels on the images as they are
  igemm,  ///< register tiles of pixels x channels; a table of pointers says where each pixel's inputs are
          ///< (M. Dukhan, "The Indirect Convolution Algorithm", arXiv:1907.02129)
  rows,  ///< the same along an image row: pixels at a constant distance, no pointers; filter positions in the
         ///< padding are skipped. conv_bwd_weight: sums over the pixels of image rows in register tiles,
         ///< of few input channels with vectors along the output channels
  patch,  ///< the inputs of a block of pixels are copied side by side (im2row), then multiplied;
          ///< conv_bwd_weight of few input channels: as rows
  lanes,  ///< vectors across groups, for few channels per group and for depthwise filters
  wino,   ///< 3x3 filters: 2x2 pixels by 16 multiplications per channel instead of 36, F(2x2, 3x3)
          ///< (A. Lavin, S. Gray, "Fast Algorithms for Convolutional Neural Networks", arXiv:1509.09308)
};

/// A config with typed members; native_conv.cpp contains their help.
struct NativeConvConfig {
  NativeIsa isa;
  NativeConvKind kind;
  std::int32_t mr, nr;
  bool pack_x, pack_w;
  std::int32_t pixels, depth, channels;
  std::int32_t threads_p, threads_k;

  std::int32_t threads() const noexcept { return threads_p * threads_k; }
  /// Throws invalid_argument when the config belongs to another space or an axis is unknown.
  static NativeConvConfig from(const KernelConfig& config);
};

extern const ConfigSpace native_conv_fwd_space, native_conv_bwd_data_space, native_conv_bwd_weight_space;
/// The space of a direction.
const ConfigSpace& native_conv_space(Op op) noexcept;

const NativeKernels& native_conv_kernels();

}  // namespace kscout
