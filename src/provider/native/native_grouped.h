#pragma once
/// \file
/// Describes the f32 kernels of backend `cpu` for grouped GEMMs (provider `native`): the kernels for GEMMs,
/// and how their work is divided among threads.
///
///     const NativeGroupedConfig config = NativeGroupedConfig::from(kernel_config);
///
/// Names follow this grammar, with words of native.h:
///
///     name   = "native_grouped_gemm_" dtype "_" layout "__" kernel "_" launch
///     kernel = isa "_" kind "_" mr "x" nr "_" packs
///     launch = "b" mc "x" kc "x" nc "_" order "_" schedule "_w" piece_m "x" piece_n "_t" threads_m "x" threads_n
///     schedule = "each" | "groups" | "pieces"
///
/// for example native_grouped_gemm_fp32_rcr__avx2_dot_4x3_nopack_b16x0x0_n_pieces_w64x256_t2x1.
#include <cstdint>

#include "provider/native/native.h"

namespace kscout {

/// How threads share the groups.
enum class GroupedSchedule : std::int32_t {
  each,    ///< one group after the other, each with all threads
  groups,  ///< a thread computes whole groups, and takes the largest one that is left
  pieces,  ///< a thread takes pieces of C of piece_m x piece_n elements, of all groups in one list
};

/// A config with typed members; native_grouped.cpp contains their help.
struct NativeGroupedConfig {
  NativeIsa isa;
  NativeKind kind;
  std::int32_t mr, nr;
  bool pack_a, pack_b;
  std::int32_t mc, kc, nc;
  NativeOrder order;
  GroupedSchedule schedule;
  std::int32_t piece_m, piece_n;
  std::int32_t threads_m, threads_n;

  std::int32_t threads() const noexcept { return threads_m * threads_n; }
  /// The config of a group's product: with all threads (schedule `each`), else with one.
  NativeConfig product() const noexcept;
  /// Throws as NativeConfig::from.
  static NativeGroupedConfig from(const KernelConfig& config);
};

extern const ConfigSpace native_grouped_space;
const NativeKernels& native_grouped_kernels();

}  // namespace kscout
