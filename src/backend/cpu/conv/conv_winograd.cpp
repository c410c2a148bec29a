// Kind wino: computes 2x2 pixels of the result from 4x4 of the source with 16 multiplications per channel
// instead of 36, F(2x2, 3x3).
#include <algorithm>

#include "backend/cpu/conv/conv_plan.h"
#include "backend/cpu/gemm/gemm_plan.h"

namespace kscout::cpu {

namespace {

constexpr std::int64_t kPackedChannels = 16;  ///< source channels of which a panel is packed at once

std::int64_t result_tiles(const ConvPlan& plan, const ConvPhase& phase) {
  return plan.images * phase.d.count * ceil_div(phase.h.count, 2) * ceil_div(phase.w.count, 2);
}

/// Tiles of a cache block: whole register tiles.
std::int64_t block_tiles(const ConvPlan& plan) {
  const std::int64_t mr = plan.config.mr, all = result_tiles(plan, plan.phases.front());
  const std::int64_t asked = std::max<std::int64_t>(plan.config.pixels / 4 / mr * mr, mr);
  return std::min(asked, round_up(all, mr));
}

class ImageWinograd {
 public:
  ImageWinograd(const ConvPlan& plan, const GemmBuffers& buffers, const float* packed, float* workspace)
      : plan_(plan),
        phase_(plan.phases.front()),
        source_(static_cast<const float*>(buffers.a)),
        result_(static_cast<float*>(buffers.c)),
        packed_(packed),
        most_tiles_(block_tiles(plan)),
        zeros_(workspace),
        inputs_(zeros_ + floats_of<float>(plan.source.group)),
        products_(inputs_ + kWinogradTaps * most_tiles_ * plan.source.group) {
    std::fill_n(zeros_, plan.source.group, 0.0F);
  }

  static std::int64_t workspace(const ConvPlan& plan) {
    return floats_of<float>(plan.source.group) +
           kWinogradTaps * block_tiles(plan) * (plan.source.group + plan.config.nr);
  }

  void run(int part) {
    const NativeConvConfig& config = plan_.config;
    const std::int64_t panels = ceil_div(plan_.result.group, config.nr);
    const Range columns = share_of(plan_.groups * panels, config.threads_k, part % config.threads_k);
    const std::int64_t tiles = result_tiles(plan_, phase_), mr = config.mr;
    const Range mine = share_of(ceil_div(tiles, mr), config.threads_p, part / config.threads_k);
    for (std::int64_t first = mine.begin * mr; first < std::min(tiles, mine.end * mr); first += most_tiles_) {
      const Range block{first, std::min({tiles, mine.end * mr, first + most_tiles_})};
      for (std::int64_t u = columns.begin; u < columns.end; ++u) {
        const std::int64_t group = u / panels;
        if (u == columns.begin || u % panels == 0) transform_inputs(block, group);
        const std::int64_t column = u % panels * config.nr;
        multiply(block.end - block.begin, group, column);
        transform_products(block, group, column);
      }
    }
  }

 private:
  /// The first pixel of a tile of the result.
  Pixel tile_at(std::int64_t index) const {
    const std::int64_t across = ceil_div(phase_.w.count, 2), down = ceil_div(phase_.h.count, 2);
    const std::int64_t row = index / across, plane = row / down;
    return {plane / phase_.d.count, plane % phase_.d.count, row % down * 2, index % across * 2};
  }

  void transform_inputs(const Range& block, std::int64_t group) {
    const ConvImageSize& size = plan_.source;
    WinogradInputArgs args{};
    args.channels = size.group;
    args.step = most_tiles_ * size.group;
    args.to = inputs_;
    for (std::int64_t tile = block.begin; tile < block.end; ++tile, args.to += size.group) {
      const Pixel at = tile_at(tile);
      const std::int64_t top = phase_.h.at(at.h, 0), left = phase_.w.at(at.w, 0);
      const std::int64_t plane = at.image * size.d + phase_.d.at(at.d, 0);
      for (std::int64_t i = 0; i < 4; ++i) {
        for (std::int64_t j = 0; j < 4; ++j) {
          const std::int64_t h = top + i, w = left + j;
          const bool inside = h >= 0 && h < size.h && w >= 0 && w < size.w;
          args.from[4 * i + j] =
              inside ? source_ + ((plane * size.h + h) * size.w + w) * size.channels + group * size.group
                     : zeros_;
        }
      }
      plan_.kernels->winograd_input(args);
    }
  }

  /// 16 products of the block's inputs with a panel of the filter.
  void multiply(std::int64_t tiles, std::int64_t group, std::int64_t column) {
    const std::int64_t lanes = plan_.kernels->lanes, depth = plan_.source.group, mr = plan_.config.mr;
    const std::int64_t width = std::min<std::int64_t>(plan_.config.nr, plan_.result.group - column);
    const std::int64_t vectors = ceil_div(width, lanes);
    const ConvTapRow row{0, 0};
    ConvTileArgs args{};
    args.a_step = depth;
    args.taps = {&row, 1, 0, 1, 0};
    args.depth = depth;
    args.b_step = vectors * lanes;
    args.ldc = plan_.config.nr;
    args.last = static_cast<std::int32_t>(lanes);
    args.b = packed_ + (group * packed_width(plan_) + column) * kWinogradTaps * depth;
    for (std::int64_t tap = 0; tap < kWinogradTaps; ++tap, args.b += depth * args.b_step) {
      args.a = inputs_ + tap * most_tiles_ * depth;
      args.c = products_ + tap * most_tiles_ * plan_.config.nr;
      args.tiles = tiles / mr;
      if (args.tiles > 0) plan_.kernels->tile[0][mr][vectors](args);
      args.a += args.tiles * mr * args.a_step;
      args.c += args.tiles * mr * args.ldc;
      args.tiles = 1;
      if (tiles % mr > 0) plan_.kernels->tile[0][tiles % mr][vectors](args);
    }
  }

  void transform_products(const Range& block, std::int64_t group, std::int64_t column) {
    const ConvImageSize& size = plan_.result;
    WinogradOutputArgs args{};
    args.channels = std::min<std::int64_t>(plan_.config.nr, size.group - column);
    args.step = most_tiles_ * plan_.config.nr;
    args.from = products_;
    for (std::int64_t tile = block.begin; tile < block.end; ++tile, args.from += plan_.config.nr) {
      const Pixel at = tile_at(tile);
      float* const to = result_ +
                        (((at.image * size.d + at.d) * size.h + at.h) * size.w + at.w) * size.channels +
                        group * size.group + column;
      const bool right = at.w + 1 < size.w, below = at.h + 1 < size.h;
      args.to[0] = to;
      args.to[1] = right ? to + size.channels : nullptr;
      args.to[2] = below ? to + size.w * size.channels : nullptr;
      args.to[3] = right && below ? to + (size.w + 1) * size.channels : nullptr;
      plan_.kernels->winograd_output(args);
    }
  }

  const ConvPlan& plan_;
  const ConvPhase& phase_;
  const float* source_;
  float* result_;
  const float* packed_;
  std::int64_t most_tiles_;
  float* zeros_;
  float* inputs_;    ///< [16][tile][source channel]
  float* products_;  ///< [16][tile][column of the panel]
};

}  // namespace

std::int64_t image_winograd_workspace(const ConvPlan& plan) noexcept {
  return ImageWinograd::workspace(plan);
}

void run_image_winograd(const ConvPlan& plan, const GemmBuffers& buffers, const float* packed,
                        float* workspace, int part) noexcept {
  ImageWinograd(plan, buffers, packed, workspace).run(part);
}

void pack_winograd_panel(const ConvPlan& plan, const float* wei, std::int64_t group, std::int64_t first,
                         float* to) noexcept {
  const std::int64_t lanes = plan.kernels->lanes, depth = plan.source.group;
  const std::int64_t width = std::min<std::int64_t>(plan.config.nr, plan.result.group - first);
  const std::int64_t stored = round_up(width, lanes);
  // The nine taps of some channels, then their transform.
  alignas(64) float taps[9 * kPackedChannels * kMaxOuterVectors * kMaxLanes];
  const bool flipped = plan.phases.front().h.tap_stride < 0;
  for (std::int64_t channel = 0; channel < depth; channel += kPackedChannels) {
    const std::int64_t channels = std::min(kPackedChannels, depth - channel);
    for (std::int64_t tap = 0; tap < 9; ++tap) {
      pack_columns(plan, wei, group, first, flipped ? 8 - tap : tap, {channel, channel + channels},
                   taps + tap * channels * stored);
    }
    plan.kernels->winograd_filter({.from = taps,
                                   .from_step = channels * stored,
                                   .to = to + channel * stored,
                                   .to_step = depth * stored,
                                   .count = channels * stored});
  }
}

}  // namespace kscout::cpu
