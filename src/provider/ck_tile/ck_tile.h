#pragma once
/// \file
/// Describes the GEMM and convolution kernels of AMD's CK Tile library (provider `ck_tile`). Needs no GPU.
///
/// Names are those of CK's own tools, so that their logs and tables can be read:
///
///     name   = "gemm_universal_" body
///     body   = dtype "_" layout "_" pipeline "_" epilogue "_" scheduler
///              "_" flag "_" flag "_" flag "_" flag "_" dims "_" dims "_" dims { "_" suffix }
///     flag   = "True" | "False"                pad_m, pad_n, pad_k, persistent
///     dims   = int "x" int "x" int             tile, waves (warp_m/n/k), warp tile
///     suffix = "vec" int "_" int "_" int       fixed vector widths (absent: native)
///            | "splitk" int | "Relu" | "Gelu" | "preshuffle"
///            | "streamk" [ "_linear" | "_tree" ]      (alone: atomic reduction)
///            | "Bias" | "BiasRelu" | "BiasGelu" | "beta" | "B" dtype | "C" dtype | "Acc" dtype   (own)
///
/// Suffixes marked (own) are KernelScout's additions to CK's names. print() writes this form, with suffixes
/// in the order above. It writes "B", "C" or "Acc" when a type differs from the one that CK pairs with A's
/// type (make_gemm). parse() also reads "gemm_" body, the bare body (the dispatcher's identifier), and a
/// leading "benchmark_". It refuses, by name, suffix words for features that a signature here cannot
/// represent (other fused operations, extra D tensors, sparsity).
#include <array>
#include <span>
#include <string>
#include <string_view>

#include <kscout/provider.h>

namespace kscout::ck_tile {

// ---- Defines the words that all config spaces of CK Tile share.

// The first entries keep the order of CK's own feature encoding, so that positions match its tables.
inline constexpr std::array<std::string_view, 20> kPipelineWords = {"compv3",
                                                                    "compv4",
                                                                    "compv5",
                                                                    "mem",
                                                                    "preshufflev2",
                                                                    "basic_v1",
                                                                    "compv6",
                                                                    "compv1",
                                                                    "compv2",
                                                                    "preshufflev1",
                                                                    "wavelet",
                                                                    "comp_async",
                                                                    "comp_tdm",
                                                                    "comp_tdm_v2",
                                                                    "basic_async_v1",
                                                                    "depthwise",
                                                                    "basic_v2",
                                                                    "comp_async_eight_waves",
                                                                    "weight_preshuffle",
                                                                    "preshuffle_tdm"};
/// GEMMs have no depthwise kernels. Positions are part of models, so words are only appended.
inline constexpr auto kGemmPipelineWords = [] {
  std::array<std::string_view, kPipelineWords.size() - 1> words;
  std::size_t next = 0;
  for (const std::string_view word : kPipelineWords) {
    if (word != "depthwise") words[next++] = word;
  }
  return words;
}();
inline constexpr std::array<std::string_view, 3> kSchedulerWords = {"intrawave", "interwave", "auto"};
inline constexpr std::array<std::string_view, 7> kEpilogueWords = {
    "default", "cshuffle", "none", "bias", "activation", "bias_activation", "tdm"};

/// Pipelines that keep two copies of the staged tiles (source: CK's dispatcher, LDS budget).
inline constexpr std::array<std::string_view, 3> kDoubleBuffered = {"compv4", "preshufflev2", "comp_async"};
/// Pipelines that are designed for one work-group per compute unit.
inline constexpr std::array<std::string_view, 2> kAlone = {"compv4", "comp_async"};
/// The name of scheduler `auto` in older tools.
inline constexpr std::string_view kAutoAlias = "default";

}  // namespace kscout::ck_tile

namespace kscout {

/// A constant that CK Tile's tools record about a device; tables call it hw_<name>.
struct CkHardwareConstant {
  std::string_view name;
  double Device::*fact;
  double unit = 1;  ///< factor from the constant's unit to that of the fact
};
inline constexpr std::array<CkHardwareConstant, 11> kCkHardware = {
    {{"num_cus", &Device::cores},
     {"simds_per_cu", &Device::simds_per_core},
     {"shader_engines", &Device::shader_engines},
     {"max_clock_mhz", &Device::max_clock_mhz},
     {"max_waves_per_cu", &Device::max_waves_per_core},
     {"wavefront_size", &Device::wavefront_size},
     {"lds_capacity", &Device::shared_bytes_per_core},
     {"l1_cache_kb", &Device::l1_bytes, 1024},
     {"l2_cache_kb", &Device::l2_bytes, 1024},
     {"l3_cache_kb", &Device::l3_bytes, 1024},
     {"num_xcd", &Device::dies}}};
/// Throws invalid_argument naming the nearest constant.
const CkHardwareConstant& find_ck_hardware(std::string_view name);

extern const ConfigSpace ck_tile_gemm_space;
const Provider& ck_tile_provider();

/// Whether a name looks like one of this provider's names.
bool is_ck_tile_name(std::string_view name) noexcept;

/// The two halves of the name grammar; Provider::print and Provider::parse call them.
std::string print_ck_tile_gemm(const Signature& signature, const KernelConfig& config);
NamedConfig parse_ck_tile_gemm(std::string_view name);

/// Axes by position, for code that fills or reads many configs.
enum class CkGemmAxis : std::size_t {
  tile_m,
  tile_n,
  tile_k,
  warp_m,
  warp_n,
  warp_k,
  warp_tile_m,
  warp_tile_n,
  warp_tile_k,
  pipeline,
  scheduler,
  epilogue,
  pad_m,
  pad_n,
  pad_k,
  persistent,
  vec_a,
  vec_b,
  vec_c,
  split_k,
  preshuffle,
  stream_k,
  count,
};

// ---- Describes the grouped convolutions of CK Tile: axes, names, traits. Needs no GPU.
//
// The three directions share one list of axes; each direction has its own space. Depthwise kernels (direct,
// no implicit GEMM) are configs of conv_fwd with pipeline `depthwise`; only they have filter, stride and
// images other than 0.
//
// One pair of functions prints and parses all forms of names:
//
//     full      = "grouped_conv_" direction "_" dtype "_" layout "_" rank "d_" pipeline "_" epilogue "_"
//                 scheduler "_" dims "_" dims "_" dims { "_" suffix }       tile, waves, warp tile
//     depthwise = "grouped_conv_fwd_depthwise_" dtype "_" layout "_2d_" HxW "_f" int "_s" HxW "_p" HxW
//                 "_nb" int "_sub" HxW "_vec" int "_" int
//     short     = "grouped_conv_" direction "_" dtype [ "_" layout ] "_" rank "d_" dims "_" pipeline
//                 [ "_" scheduler ] [ "_gm" int ] [ "_dsb" ] [ "_si" ] [ "_2stage" ]     nothing after the
//                 pipeline: unknown; only the scheduler left out: intrawave
//     key       = "grouped_conv_" direction "_" dtype [ "_" layout ] "_" rank "d_" dims "_" dims "_" dims "_" pipeline
//                 [ "_" specialization ]
//     direction = "fwd" | "forward" | "bwd_data" | "bwdd" | "bwd_weight" | "bwdw"
//     dims      = int "x" int "x" int
//     suffix    = "vec" int "_" int "_" int            absent: 4, 8, 8
//               | "bpc" int | "wg" int | "gm" int      work-groups per unit, wave groups, groups merged
//               | "dsb" | "2stage" | specialization | "explicit_gemm"
//               | "streamk" [ "_linear" | "_tree" ] [ "_persistent" ]
//               | "large_tensor" (also "si") | "pad" three digits
//               | "splitk" int | "Wei" dtype | "Out" dtype | "Acc" dtype                    (own)
//
// print() chooses the form by the known axes of a config: `full` when every axis is known, `short` or `key`
// when exactly the axes of that form are. Suffixes print in the order above. parse() reads suffixes in any
// order, a leading "benchmark_", and the form of profiler logs (full without waves and warp tile), which
// becomes `short`.

extern const ConfigSpace ck_tile_conv_fwd_space;
extern const ConfigSpace ck_tile_conv_bwd_data_space;
extern const ConfigSpace ck_tile_conv_bwd_weight_space;

/// The space of a direction. Throws unsupported for gemm.
const ConfigSpace& ck_tile_conv_space(Op op);

/// A direction's name in CK Tile's trait files, tables and trainer: forward, bwd_data, bwd_weight; empty for
/// gemm.
constexpr std::string_view ck_variant(Op op) noexcept {
  switch (op) {
    case Op::conv_fwd:
      return "forward";
    case Op::conv_bwd_data:
      return "bwd_data";
    case Op::conv_bwd_weight:
      return "bwd_weight";
    default:
      return {};
  }
}

/// Axes by position, for code that fills or reads many configs.
enum class CkConvAxis : std::size_t {
  tile_m,
  tile_n,
  tile_k,
  warp_m,
  warp_n,
  warp_k,
  warp_tile_m,
  warp_tile_n,
  warp_tile_k,
  pipeline,
  scheduler,
  epilogue,
  pad_m,
  pad_n,
  pad_k,
  vec_a,
  vec_b,
  vec_c,
  wave_groups,
  blocks_per_cu,
  merged_groups,
  double_buffer,
  two_stage,
  explicit_gemm,
  split_image,
  specialization,
  stream_k,
  split_k,
  filter,
  stride_h,
  stride_w,
  images,
  count,
};

const Axis& axis_of(CkConvAxis axis) noexcept;
inline std::int32_t& value_of(KernelConfig& config, CkConvAxis axis) noexcept {
  return config[static_cast<std::size_t>(axis)];
}
inline std::int32_t value_of(const KernelConfig& config, CkConvAxis axis) noexcept {
  return config[static_cast<std::size_t>(axis)];
}
/// Sets a word axis, e.g. pipeline to "mem".
void set_word(KernelConfig& config, CkConvAxis axis, std::string_view word);
bool has_word(const KernelConfig& config, CkConvAxis axis, std::string_view word);

/// The config of a name without suffixes: intrawave, cshuffle, padded, vectors 4, 8, 8, no feature. Tile,
/// waves, warp tile and pipeline are still unknown.
KernelConfig plain_ck_conv(Op op);
/// Sets the axes that the name of a depthwise kernel omits; the axes that the name states are still as in
/// plain_ck_conv.
KernelConfig plain_ck_depthwise();

/// Whether a name begins like one of the forms above.
bool is_ck_tile_conv_name(std::string_view name) noexcept;
std::string print_ck_tile_conv(const Signature& signature, const KernelConfig& config);

/// The spelling that a name is written in.
enum class CkSpelling : std::uint8_t {
  full,      ///< spelling of today's code generator
  shorter,   ///< spelling of the benchmarks: tile before the pipeline; no waves, warp tile or widths
  older,     ///< spelling of the first benchmarks: like `shorter`, and nothing after the pipeline
  profiler,  ///< spelling of profiler logs: `full` without waves and warp tile
  key,       ///< a dispatcher's kernel key
};
template <>
struct EnumWords<CkSpelling> {
  static constexpr std::string_view what = "spelling";
  static constexpr std::array<std::string_view, 5> words = {"full", "shorter", "older", "profiler", "key"};
};

/// `spelling`, when given, receives the name's spelling. print_ck_tile_conv prints the current spelling for
/// the axes that the name states.
NamedConfig parse_ck_tile_conv(std::string_view name, CkSpelling* spelling = nullptr);

/// The three numbers of a first-generation table: block_size, gemm_m_per_block and gemm_n_per_block. In
/// tables made from names these columns hold the tile's m, n, k (`shifted`); in later tables they hold what
/// their titles say. The name in the same row decides.
struct CkTableTile {
  std::int32_t m = KernelConfig::unknown, n = KernelConfig::unknown, k = KernelConfig::unknown;
  bool shifted = false;
};
/// Throws corrupt_data when the columns match the name in neither meaning.
CkTableTile read_ck_table_tile(const KernelConfig& named, std::int32_t block_size,
                               std::int32_t gemm_m_per_block, std::int32_t gemm_n_per_block);

Traits ck_tile_conv_traits(const Signature& signature, const KernelConfig& config, const Device& device);

}  // namespace kscout
