#pragma once
/// \file
/// The kernels of conv_bwd_weight of provider `groupwise`. Included by groupwise_gemm.cu alone.
#include "backend/cuda/module/groupwise_gemm.cuh"
#include "backend/cuda/module/groupwise_tile.cuh"

namespace kscout::cuda {

/// conv_bwd_weight: rows are channels of the output image, columns filter elements and channels of the input
/// image, K the elements of the output image.
template <int kM, int kN, int kWarpM, int kWarpN, int kV>
__global__ void __launch_bounds__((threads_of<kM, kN, kWarpM, kWarpN>()))
    weight_gemm(const __grid_constant__ GemmJob job) {
  constexpr int kThreads = threads_of<kM, kN, kWarpM, kWarpN>();
  constexpr int kStages = stages_of(kV);
  using Tile = WarpTile<kM, kN, kWarpM, kWarpN, true, true>;
  // places: [kStages + 1][kTileK]
  const SharedTiles shared = shared_tiles<Tile, kStages>();
  const auto [tiles_a, tiles_b, places, address_a, address_b] = shared;
  const int thread = static_cast<int>(threadIdx.x);

  unsigned block = blockIdx.x;
  const int n_tile = static_cast<int>(block % job.n_tiles);
  block /= job.n_tiles;
  const int m_tile = static_cast<int>(block % job.m_tiles);
  block /= job.m_tiles;
  const int group = static_cast<int>(block % job.merged_groups);
  const int part = static_cast<int>(block / job.merged_groups);
  const Walk& walk_d = job.walks.of[0][0];
  const Walk& walk_h = job.walks.of[1][0];
  const Walk& walk_w = job.walks.of[2][0];

  const int pixels = job.images * walk_d.count * walk_h.count * walk_w.count;
  const int k_tiles = (pixels + kTileK - 1) / kTileK;
  const int tiles_of_part = (k_tiles + job.parts - 1) / job.parts;
  const int first_tile = part * tiles_of_part;
  const int count = max(0, min(tiles_of_part, k_tiles - first_tile));

  const auto find_places = [&](int tile) {
    if (thread >= kTileK) return;
    const int pixel = (first_tile + tile) * kTileK + thread;
    Place place{0, kOutside, 0, 0};
    if (pixel < pixels) {
      const int image = static_cast<int>(job.by_pixels.quotient(pixel));
      int rest = pixel - image * static_cast<int>(job.by_pixels.divisor);
      const int d = static_cast<int>(job.by_plane.quotient(rest));
      rest -= d * static_cast<int>(job.by_plane.divisor);
      const int h = static_cast<int>(job.by_width.quotient(rest));
      const int w = rest - h * static_cast<int>(job.by_width.divisor);
      place = place_of(image, d, h, w, walk_d, walk_h, walk_w);
    }
    places[tile % (kStages + 1) * kTileK + thread] = place;
  };

  constexpr int kColumnsA = kM / kV, kRowsA = kThreads / kColumnsA;
  constexpr int kColumnsB = kN / kV, kRowsB = kThreads / kColumnsB;
  const int column_a = thread % kColumnsA * kV, row_a = thread / kColumnsA;
  const int column_b = thread % kColumnsB * kV, row_b = thread / kColumnsB;
  const int m = m_tile * kM + column_a;
  const bool inside_a = m < job.result_group && group * job.result_group + m < job.result_channels;
  const Element* const from_a = job.filter + group * job.result_group + m;
  const int n = n_tile * kN + column_b;
  const TapState tap(n, job.image_group, walk_h, walk_w);
  const bool inside_b = tap.z < walk_d.taps && group * job.image_group + tap.channel < job.image_channels;
  const int d = tap.z * walk_d.tap_step, h = tap.y * walk_h.tap_step, w = tap.x * walk_w.tap_step;
  const int offset = (d * walk_h.source + h) * walk_w.source + w;
  const Element* const from_b = job.image + group * job.image_group + tap.channel;

  constexpr int kKeptA = kV == 1 ? (kTileK + kRowsA - 1) / kRowsA : 1;
  constexpr int kKeptB = kV == 1 ? (kTileK + kRowsB - 1) / kRowsB : 1;
  Element kept_a[kKeptA], kept_b[kKeptB];

  const auto load = [&](int tile, int slot) {
    const int first = (first_tile + tile) * kTileK;
#pragma unroll
    for (int i = 0; i < (kTileK + kRowsA - 1) / kRowsA; ++i) {
      const int k = row_a + i * kRowsA;
      if (k >= kTileK) break;
      const bool valid = inside_a && first + k < pixels;
      const Element* const from =
          valid ? from_a + static_cast<std::int64_t>(first + k) * job.result_channels : job.filter;
      if constexpr (kV == 1) {
        kept_a[i] = valid ? *from : Element{0};
      } else {
        copy_async<kV>(address_a + 2 * (slot * Tile::kElementsA + k * Tile::kPitchA + column_a), from, valid);
      }
    }
#pragma unroll
    for (int i = 0; i < (kTileK + kRowsB - 1) / kRowsB; ++i) {
      const int k = row_b + i * kRowsB;
      if (k >= kTileK) break;
      const Place place = places[tile % (kStages + 1) * kTileK + k];
      const bool valid = inside_b && place.reads(d, h, w, walk_d, walk_h, walk_w);
      const Element* const from =
          valid ? from_b + static_cast<std::int64_t>(place.pixel + offset) * job.image_channels : job.image;
      if constexpr (kV == 1) {
        kept_b[i] = valid ? *from : Element{0};
      } else {
        copy_async<kV>(address_b + 2 * (slot * Tile::kElementsB + k * Tile::kPitchB + column_b), from, valid);
      }
    }
    copies_issued();
  };
  const auto store_kept = [&](int slot) {
    if constexpr (kV == 1) {
#pragma unroll
      for (int i = 0; i < kKeptA; ++i) {
        const int k = row_a + i * kRowsA;
        if (k < kTileK) tiles_a[slot * Tile::kElementsA + k * Tile::kPitchA + column_a] = kept_a[i];
      }
#pragma unroll
      for (int i = 0; i < kKeptB; ++i) {
        const int k = row_b + i * kRowsB;
        if (k < kTileK) tiles_b[slot * Tile::kElementsB + k * Tile::kPitchB + column_b] = kept_b[i];
      }
    }
  };

  for (int tile = 0; tile < kStages; ++tile) find_places(tile);
  __syncthreads();
  const Tile sums = sum_of_tiles<Tile, kStages>(shared, count, job.bf16, load, store_kept, find_places);

  const int columns = job.filter_elements * job.image_group;
  sums.each_pair([&](int row, int first_column, float low, float high) {
    row += m_tile * kM;
    if (row >= job.result_group || group * job.result_group + row >= job.result_channels) return;
    const auto own = static_cast<int>(job.by_result_per.quotient(row));
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int at = n_tile * kN + first_column + i;
      if (at >= columns) return;
      const auto element = static_cast<int>(job.by_image_group.quotient(at));
      int channel = at - element * job.image_group;
      if (static_cast<int>(job.by_image_per.quotient(channel)) != own) continue;
      channel -= own * job.image_per;
      const std::int64_t to =
          (static_cast<std::int64_t>(group * job.result_group + row) * job.filter_elements + element) *
              job.image_per +
          channel;
      const float value = i == 0 ? low : high;
      if (job.parts > 1) {
        job.partial[part * job.result_elements + to] = value;
      } else {
        job.result[to] = to_element(value, job.bf16);
      }
    }
  });
}

}  // namespace kscout::cuda
