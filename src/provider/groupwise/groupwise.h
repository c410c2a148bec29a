#pragma once
/// \file
/// Describes the project's own kernels of grouped and depthwise convolutions for NVIDIA's GPUs (provider
/// `groupwise`). Needs no GPU; src/backend/cuda/module/groupwise_conv.h has the kernels.
///
///     const GroupwiseConfig config = GroupwiseConfig::from(kernel_config);
///
/// Names follow this grammar (whole numbers without leading zeros):
///
///     name = "groupwise_" op "_" dtype "_" layout "__" how "_k" split_k
///     how  = "gemm_t" tile_m "x" tile_n "_m" merge | "depthwise_v" vector "x" pixels
///
/// for example groupwise_conv_fwd_bf16_nhwgc__gemm_t128x32_m4_k1.
#include <kscout/provider.h>

namespace kscout {

enum class GroupwiseKind : std::int32_t { gemm, depthwise };

/// A config with typed members, in the order of the axes; groupwise.cpp contains their help. Axes of the
/// other kind are 0.
struct GroupwiseConfig {
  GroupwiseKind kind = GroupwiseKind::gemm;
  std::int32_t tile_m = 0, tile_n = 0, merge = 0;
  std::int32_t vector = 0, pixels = 0;
  std::int32_t split_k = 1;

  /// Throws invalid_argument when the config belongs to another space, an axis is unknown, or an axis of the
  /// other kind has a value.
  static GroupwiseConfig from(const KernelConfig& config);
};

const Provider& groupwise_provider();

}  // namespace kscout
