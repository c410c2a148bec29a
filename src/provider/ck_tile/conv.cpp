#include <algorithm>

#include "core/fail.h"
#include "core/names.h"
#include "provider/ck_tile/ck_tile.h"

namespace kscout {
namespace {

using enum CkConvAxis;

constexpr std::string_view kSpecializations[] = {"default", "filter1x1_pad0", "filter1x1_stride1_pad0",
                                                 "filter3x3"};
constexpr std::string_view kStreamK[] = {
    "off", "atomic", "linear", "tree", "atomic_persistent", "linear_persistent", "tree_persistent"};

constexpr Axis kAxes[] = {
    {"tile_m", "elements", "M of the implicit GEMM that one work-group computes; rows of a depthwise tile"},
    {"tile_n", "elements",
     "N of the implicit GEMM that one work-group computes; columns of a depthwise tile"},
    {"tile_k", "elements", "K that is staged in LDS at once"},
    {"warp_m", "waves", "waves of a work-group along M"},
    {"warp_n", "waves", "waves of a work-group along N"},
    {"warp_k", "waves", "waves of a work-group along K"},
    {"warp_tile_m", "elements", "M of one matrix instruction; rows that a lane computes when depthwise"},
    {"warp_tile_n", "elements", "N of one matrix instruction; columns that a lane computes when depthwise"},
    {"warp_tile_k", "elements", "K of one matrix instruction"},
    {"pipeline", "1", "how loads and arithmetic overlap", ck_tile::kPipelineWords},
    {"scheduler", "1", "whether waves or instructions interleave", ck_tile::kSchedulerWords},
    {"epilogue", "1", "how results leave the registers", ck_tile::kEpilogueWords},
    {"pad_m", "1", "1 when M may leave a tail"},
    {"pad_n", "1", "1 when N may leave a tail"},
    {"pad_k", "1", "1 when K may leave a tail"},
    {"vec_a", "elements", "width of loads of A; of the input when depthwise"},
    {"vec_b", "elements", "width of loads of B"},
    {"vec_c", "elements", "width of stores of C; of the output when depthwise"},
    {"wave_groups", "1", "groups of waves that alternate"},
    {"blocks_per_cu", "1", "work-groups that a compute unit must hold; 0 = what the pipeline implies"},
    {"merged_groups", "1", "groups of the convolution that share a tile"},
    {"double_buffer", "1", "1 when there are two copies of the staged tiles"},
    {"two_stage", "1", "1 when sums go to an fp32 workspace and are converted by a second kernel"},
    {"explicit_gemm", "1", "1 when a 1x1 filter runs as a plain GEMM"},
    {"split_image", "1", "1 when large tensors are split so that offsets fit 31 bits"},
    {"specialization", "1", "properties of the filter that the kernel is compiled for", kSpecializations},
    {"stream_k", "1", "whether work-groups share tiles along K, and how their partial sums are reduced",
     kStreamK},
    {"split_k", "1", "split-K slices, summed at the end; 1 = none", {}, true},
    {"filter", "elements", "edge of the filter of a depthwise kernel; else 0"},
    {"stride_h", "elements", "vertical stride of a depthwise kernel; else 0"},
    {"stride_w", "elements", "horizontal stride of a depthwise kernel; else 0"},
    {"images", "1", "images that a wave of a depthwise kernel computes; else 0"},
};
static_assert(std::size(kAxes) == static_cast<std::size_t>(count) && std::size(kAxes) <= kMaxAxes);

double known(std::int32_t value) { return value == KernelConfig::unknown ? Traits::unknown : value; }

bool is_one_of(const KernelConfig& config, CkConvAxis axis, std::span<const std::string_view> words) {
  return find_word(axis_value_text(axis_of(axis), value_of(config, axis)), words).has_value();
}

}  // namespace

constinit const ConfigSpace ck_tile_conv_fwd_space{"ck_tile", Op::conv_fwd, kAxes};
constinit const ConfigSpace ck_tile_conv_bwd_data_space{"ck_tile", Op::conv_bwd_data, kAxes};
constinit const ConfigSpace ck_tile_conv_bwd_weight_space{"ck_tile", Op::conv_bwd_weight, kAxes};

const ConfigSpace& ck_tile_conv_space(Op op) {
  switch (op) {
    case Op::conv_fwd:
      return ck_tile_conv_fwd_space;
    case Op::conv_bwd_data:
      return ck_tile_conv_bwd_data_space;
    case Op::conv_bwd_weight:
      return ck_tile_conv_bwd_weight_space;
    default:
      break;
  }
  fail(Errc::unsupported, "op '{}' is no convolution", word(op));
}

const Axis& axis_of(CkConvAxis axis) noexcept { return kAxes[static_cast<std::size_t>(axis)]; }

void set_word(KernelConfig& config, CkConvAxis axis, std::string_view word) {
  value_of(config, axis) = parse_axis_value(axis_of(axis), word);
}

bool has_word(const KernelConfig& config, CkConvAxis axis, std::string_view word) {
  return is_one_of(config, axis, std::span(&word, 1));
}

KernelConfig plain_ck_conv(Op op) {
  KernelConfig config(ck_tile_conv_space(op));
  set_word(config, scheduler, "intrawave");
  set_word(config, epilogue, "cshuffle");
  for (const CkConvAxis axis : {pad_m, pad_n, pad_k, wave_groups, merged_groups, split_k})
    value_of(config, axis) = 1;
  value_of(config, vec_a) = 4;
  value_of(config, vec_b) = value_of(config, vec_c) = 8;
  for (const CkConvAxis axis : {blocks_per_cu, double_buffer, two_stage, explicit_gemm, split_image,
                                specialization, stream_k, filter, stride_h, stride_w, images}) {
    value_of(config, axis) = 0;
  }
  return config;
}

KernelConfig plain_ck_depthwise() {
  KernelConfig config = plain_ck_conv(Op::conv_fwd);
  set_word(config, pipeline, "depthwise");
  set_word(config, epilogue, "default");
  for (const CkConvAxis axis : {tile_k, warp_m, warp_n, warp_k, warp_tile_k, vec_b})
    value_of(config, axis) = 1;
  return config;
}

Traits ck_tile_conv_traits(const Signature& signature, const KernelConfig& config, const Device& device) {
  const auto at = [&](CkConvAxis axis) { return known(value_of(config, axis)); };
  const double bytes_a = bytes_per_element(signature.dtype_a), bytes_b = bytes_per_element(signature.dtype_b);
  const bool direct = has_word(config, pipeline, "depthwise");
  const bool alone = is_one_of(config, pipeline, ck_tile::kAlone);
  const double stages =
      is_one_of(config, pipeline, ck_tile::kDoubleBuffered) || at(double_buffer) == 1 ? 2 : 1;
  Traits traits;
  traits.tile_m = at(tile_m);
  traits.tile_n = at(tile_n);
  traits.tile_k = at(tile_k);
  traits.inner_m = at(warp_tile_m);
  traits.inner_n = at(warp_tile_n);
  traits.inner_k = at(warp_tile_k);
  traits.workers = 0;
  traits.workers_m = 0;
  traits.workers_n = 0;
  traits.threads_per_worker = device.wavefront_size * at(warp_m) * at(warp_n) * at(warp_k);
  traits.workers_per_core = at(blocks_per_cu) > 0 ? at(blocks_per_cu) : alone || stages == 2 ? 1 : 2;
  traits.stages = stages;
  traits.split_k = at(split_k);
  traits.shared_bytes =
      direct ? Traits::unknown : stages * at(tile_k) * (at(tile_m) * bytes_a + at(tile_n) * bytes_b);
  traits.register_elements =
      direct ? at(warp_tile_m) * at(warp_tile_n) : at(tile_m) * at(tile_n) / (at(warp_m) * at(warp_n));
  traits.vector_elements = at(vec_a);
  traits.alignment = at(vec_a);
  traits.packs_a = 0;
  traits.packs_b = 0;
  traits.kind = direct ? 2 : 0;
  traits.persistent = axis_value_text(axis_of(stream_k), value_of(config, stream_k)).ends_with("persistent");
  traits.cluster = 1;
  return traits;
}

}  // namespace kscout
