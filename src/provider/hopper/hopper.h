#pragma once
/// \file
/// Describes the project's own kernels for Hopper (provider `hopper`): of GEMMs, which take lines of A, B and
/// C at any address of an element, of grouped GEMMs, which compute all groups in one launch, and of
/// convolutions of one group. Needs no GPU; hopper_gemm.h and hopper_conv.h in src/backend/cuda/module have
/// the kernels.
///
///     const HopperConfig config = HopperConfig::from(kernel_config);
///
/// Names follow this grammar (whole numbers without leading zeros):
///
///     name = "hopper_gemm_" signature "__128x" tile_n "x64_c" cluster "_k" split_k
///          | "hopper_grouped_gemm_" signature "__128x" tile_n "x64_c" cluster
///          | "hopper_" op "_" dtype "_" layout "__128x" tile_n "x64_c" cluster "_k" split_k
///
/// for example hopper_gemm_bf16_rcr__128x256x64_c2_k1 and hopper_conv_fwd_bf16_nhwgc__128x256x64_c2_k1; op is
/// a convolution's. src/provider/name_reader.h defines the signature.
#include <kscout/provider.h>

namespace kscout {

/// A config with typed members, in the order of the axes; hopper.cpp contains their help. One of a grouped
/// GEMM does not divide K.
struct HopperConfig {
  std::int32_t tile_n = 256, cluster = 1, split_k = 1;

  /// Throws invalid_argument when the config belongs to another space or an axis is unknown.
  static HopperConfig from(const KernelConfig& config);
};

const Provider& hopper_provider();

}  // namespace kscout
