#pragma once
/// \file
/// Describes the engine configs of NVIDIA's cuDNN for convolutions (provider `cudnn`). Needs neither the
/// library nor a GPU.
///
///     const CudnnConfig config = CudnnConfig::from(kernel_config);
///     KernelConfig same = config.kernel_config(Op::conv_fwd);
///
/// An engine config is an engine and values of its knobs. Numbers of engines and knob values mean only "the
/// same". A name is of one release of the library (axis `version`), which lists engine configs for a problem
/// and decides at run time whether one takes it.
///
/// Axes `engine` and `knob_*` hold the library's number plus 1; 0 = not given, which is a value of its own:
/// an engine then chooses.
///
/// Names follow this grammar (whole numbers without leading zeros; knobs in the order of the axes, each at
/// most once):
///
///     name   = "cudnn_" op "_" dtype "_" layout "_v" version "__" how
///     how    = "suggestion" n ["_" mode] | ["suggestion" n "_"] engine
///     mode   = "b" | "fallback"                  omitted: mode a
///     engine = "e" number { "_" knob value }
///     knob   = "split_k" | "tile_size" | ... | "cga_m" | "cga_n"        the axis without "knob_"
///
/// for example cudnn_conv_fwd_bf16_nhwgc_v91900__e62_tile_size5_tilek1_idx_mode0_workspace0_cga_m4_cga_n1 and
/// cudnn_conv_fwd_bf16_nhwgc_v0__suggestion1. A name with both says what the library listed n-th for a
/// problem.
#include <array>
#include <string>

#include <kscout/provider.h>

namespace kscout {

/// Which of the library's lists a suggestion is taken from.
enum class CudnnMode : std::int32_t {
  a,         ///< the default: a decision tree. The fallback list follows it, so the first suggestion exists
             ///< wherever the library computes the problem
  b,         ///< a neural network, slower to answer
  fallback,  ///< engines that take nearly everything
};

inline constexpr std::size_t kCudnnKnobs = 17;
/// The library's numbers of the knob types (cudnnBackendKnobType_t), in the order of the axes.
inline constexpr std::array<std::int32_t, kCudnnKnobs> kCudnnKnobTypes = {0,  2,  3,  5,  6,  12, 13, 14, 15,
                                                                          17, 18, 22, 23, 24, 25, 27, 28};
inline constexpr std::size_t kCudnnKernelCfg = 13;  ///< position of knob kernel_cfg
/// Position of a knob type of the library; kCudnnKnobs for a type without an axis.
std::size_t cudnn_knob(std::int32_t type) noexcept;

/// A config with typed members, in the order of the axes; cudnn.cpp contains their help.
struct CudnnConfig {
  std::int32_t version = 0;     ///< cudnnGetVersion(); 0 = any installed release
  std::int32_t suggestion = 0;  ///< n: the n-th suggestion; with an engine: which is the n-th of mode a
  CudnnMode mode = CudnnMode::a;
  std::int32_t engine = 0;                       ///< number + 1
  std::array<std::int32_t, kCudnnKnobs> knob{};  ///< value + 1; 0 = not given

  /// Throws invalid_argument when the config belongs to another space or an axis is unknown.
  static CudnnConfig from(const KernelConfig& config);
  KernelConfig kernel_config(Op op) const;
  /// Whether it says which engine runs.
  bool is_named() const noexcept { return engine > 0; }
  bool operator==(const CudnnConfig&) const = default;
};

const Provider& cudnn_provider();
/// The space of a direction.
const ConfigSpace& cudnn_space(Op op) noexcept;

/// Maximum workspace of a config: the limit is part of a config's meaning, so that every config is chosen
/// under the same limit.
inline constexpr std::int64_t kCudnnWorkspace = std::int64_t{256} << 20;

}  // namespace kscout
