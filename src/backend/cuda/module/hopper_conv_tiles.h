#pragma once
/// \file
/// Counts the tiles of the implicit GEMMs of hopper_conv.h, and says which convolutions they compute. Needs
/// no CUDA: families/hopper_conv.toml has the same limits as rules.
///
///     if (const char* const why = hopper_conv_refusal(shape, kernel)) return unsupported(why);
///     const HopperConvTiles tiles = hopper_conv_tiles(shape, kernel);
#include "backend/cuda/module.h"
#include "provider/hopper/hopper.h"

namespace kscout::cuda {

inline constexpr std::int64_t kConvTileM = 128, kConvTileK = 64;

/// The image is the one that loads of pixels read: the output image of conv_bwd_data, else the input image.
struct HopperConvTiles {
  bool has_depth;         ///< the image's tensor map has three axes, else two
  std::int64_t channels;  ///< of the image
  std::int64_t taps;      ///< elements of the filter
  std::int64_t blocks;    ///< of the image's channels: tiles of K for one tap; of conv_bwd_weight tiles of N
  std::int64_t pixels;    ///< rows of the product; of conv_bwd_weight: K
  std::int64_t m, n;
  std::int64_t k_tiles, m_units, n_tiles;  ///< a unit is the rows that a cluster computes at a time
};

constexpr bool has_depth(const ConvAxis& depth) {
  return depth.in != 1 || depth.out != 1 || depth.filter != 1 || depth.pad != 0;
}

/// For a kernel and strides that hopper_conv_refusal() admits.
constexpr HopperConvTiles hopper_conv_tiles(const ConvShape& s, const HopperConfig& kernel) {
  const auto ceil_div = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  const bool data = s.direction == Direction::backward_data,
             weight = s.direction == Direction::backward_weight;
  HopperConvTiles t = {};
  t.has_depth = has_depth(s.axes[0]);
  t.channels = data ? s.k : s.c;
  t.taps = 1;
  t.pixels = s.n;
  for (const ConvAxis& axis : s.axes) {
    t.taps *= axis.filter;
    t.pixels *= walk_of(s.direction, axis, 0).count;
  }
  t.blocks = ceil_div(t.channels, weight ? kernel.tile_n : kConvTileK);
  t.m = weight ? s.k : t.pixels;
  t.n = weight ? t.taps * s.c : data ? s.c : s.k;
  t.k_tiles = weight ? ceil_div(t.pixels, kConvTileK) : t.taps * t.blocks;
  t.m_units = ceil_div(t.m, kConvTileM * kernel.cluster);
  t.n_tiles = weight ? t.taps * t.blocks : ceil_div(t.n, kernel.tile_n);
  return t;
}

/// The position of an axis' last pixel, less that of the image's last element.
constexpr std::int64_t upper_corner(const Walk& walk) {
  return walk.base + std::int64_t{walk.count - 1} * walk.step - (walk.source - 1);
}

/// Why a tensor map in im2col mode does not describe an image along an axis; null if it does. Limits:
/// cuTensorMapEncodeIm2col, and the im2col mode of PTX, whose offsets have as many bits as the corners.
constexpr const char* im2col_refusal(const Walk& walk, bool has_depth) {
  const std::int64_t limit = has_depth ? 16 : 128;
  const auto outside = [limit](std::int64_t corner) { return corner < -limit || corner >= limit; };
  if (walk.step > 8) return "strides above 8";
  if (outside(walk.base) || outside(upper_corner(walk)) ||
      std::int64_t{walk.taps - 1} * walk.tap_step >= 2 * limit)
    return "pads or extents of the filter that tensor maps do not hold";
  return nullptr;
}

/// Why the kernel does not compute the convolution; null if it does.
constexpr const char* hopper_conv_refusal(const ConvShape& s, const HopperConfig& kernel) {
  if (kernel.tile_n != 64 && kernel.tile_n != 128 && kernel.tile_n != 256) return "tiles that no kernel has";
  if (kernel.cluster != 1 && kernel.cluster != 2) return "clusters that no kernel has";
  if (s.dtype != DType::bf16 && s.dtype != DType::fp16) return "elements other than bf16 and fp16";
  if (s.g != 1) return "several groups";
  if (s.c % 8 != 0) return "input channels that are no multiple of 8";
  if (s.direction != Direction::forward && s.k % 8 != 0) return "output channels that are no multiple of 8";
  const bool has_volume = has_depth(s.axes[0]);
  for (int i = 0; i < 3; ++i) {
    const ConvAxis& axis = s.axes[i];
    if (s.direction == Direction::backward_data && axis.stride != 1) return "conv_bwd_data with a stride";
    if (i == 0 && !has_volume) continue;
    if (const char* const why = im2col_refusal(walk_of(s.direction, axis, 0), has_volume)) return why;
  }
  const HopperConvTiles t = hopper_conv_tiles(s, kernel);
  constexpr std::int64_t kMost = 0x7FFFFFFF;
  if (t.pixels > kMost - kConvTileM * kernel.cluster || t.n > kMost - kernel.tile_n || t.k_tiles > kMost ||
      t.m_units * t.n_tiles * kernel.split_k > kMost)
    return "more pixels or tiles than a 32-bit number counts";
  return nullptr;
}

}  // namespace kscout::cuda
