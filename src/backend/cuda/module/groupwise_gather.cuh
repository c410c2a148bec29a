#pragma once
/// \file
/// The kernels of conv_fwd and conv_bwd_data of provider `groupwise`. Included by groupwise_gemm.cu alone.
#include "backend/cuda/module/groupwise_gemm.cuh"
#include "backend/cuda/module/groupwise_tile.cuh"

namespace kscout::cuda {

/// conv_fwd and conv_bwd_data: rows are elements of the computed image, columns its channels, K the filter
/// elements and channels of the other image.
template <bool kBackward, int kM, int kN, int kWarpM, int kWarpN, int kV>
__global__ void __launch_bounds__((threads_of<kM, kN, kWarpM, kWarpN>()))
    gather_gemm(const __grid_constant__ GemmJob job) {
  constexpr int kThreads = threads_of<kM, kN, kWarpM, kWarpN>();
  constexpr int kStages = stages_of(kV);
  constexpr bool kBByK = kBackward;
  using Tile = WarpTile<kM, kN, kWarpM, kWarpN, false, kBByK>;
  const SharedTiles shared = shared_tiles<Tile, kStages>();
  const auto [tiles_a, tiles_b, places, address_a, address_b] = shared;
  int* const results = reinterpret_cast<int*>(places + kM);
  const int thread = static_cast<int>(threadIdx.x);

  unsigned block = blockIdx.x;
  const int n_tile = static_cast<int>(block % job.n_tiles);
  block /= job.n_tiles;
  const int group = static_cast<int>(block % job.merged_groups);
  block /= job.merged_groups;
  const int m_tile = static_cast<int>(block % job.m_tiles);
  block /= job.m_tiles;
  const int part = static_cast<int>(block % job.parts);
  const int kind = static_cast<int>(block / job.parts);
  const int class_w = kind % job.walks.classes[2],
            class_h = kind / job.walks.classes[2] % job.walks.classes[1];
  const Walk& walk_w = job.walks.of[2][class_w];
  const Walk& walk_h = job.walks.of[1][class_h];
  const Walk& walk_d = job.walks.of[0][kind / job.walks.classes[2] / job.walks.classes[1]];
  const int rows = job.images * walk_d.count * walk_h.count * walk_w.count;
  if (m_tile * kM >= rows) return;

  for (int i = thread; i < kM; i += kThreads) {
    const int row = m_tile * kM + i;
    Place place{0, kOutside, 0, 0};
    int result = -1;
    if (row < rows) {
      int rest = row;
      const int w = rest % walk_w.count;
      rest /= walk_w.count;
      const int h = rest % walk_h.count;
      rest /= walk_h.count;
      const int d = rest % walk_d.count;
      const int image = rest / walk_d.count;
      place = place_of(image, d, h, w, walk_d, walk_h, walk_w);
      result = ((image * job.result_size[0] + walk_d.out_first + d * walk_d.out_step) * job.result_size[1] +
                walk_h.out_first + h * walk_h.out_step) *
                   job.result_size[2] +
               walk_w.out_first + w * walk_w.out_step;
    }
    places[i] = place;
    results[i] = result;
  }
  __syncthreads();

  const int k_all = walk_d.taps * walk_h.taps * walk_w.taps * job.image_group;
  const int k_tiles = (k_all + kTileK - 1) / kTileK;
  const int tiles_of_part = (k_tiles + job.parts - 1) / job.parts;
  const int first_tile = part * tiles_of_part;
  const int count = max(0, min(tiles_of_part, k_tiles - first_tile));

  constexpr int kColumns = kTileK / kV, kRowsAtOnce = kThreads / kColumns;
  const int column = thread % kColumns * kV, first_row = thread / kColumns;
  TapState tap(first_tile * kTileK + column, job.image_group, walk_h, walk_w);
  const int first_channel = group * job.image_group;

  constexpr int kPassesA = kM / kRowsAtOnce;
  constexpr int kKeptA = kV == 1 ? kPassesA : 1;
  Element kept_a[kKeptA];
  // Single elements are kept in registers while a tile is computed.
  constexpr bool kSingleB = kV == 1;
  constexpr int kKeptB = kSingleB ? kTileK * kN / kThreads : 1;
  Element kept_b[kKeptB];

  const auto filter_element = [&](int z, int y, int x) {
    return ((walk_d.first_tap + z * walk_d.next_tap) * job.filter_y + walk_h.first_tap +
            y * walk_h.next_tap) *
               job.filter_x +
           walk_w.first_tap + x * walk_w.next_tap;
  };
  /// The filter element of row `k` and column `n` of B.
  const auto element_of_b = [&](int k, int n) -> const Element* {
    n += n_tile * kN;
    if (k >= k_all || n >= job.result_group) return nullptr;
    const int t = static_cast<int>(job.by_image_group.quotient(k));
    const int channel = k - t * job.image_group;
    const auto line = static_cast<int>(job.by_taps[2][class_w].quotient(t));
    const auto z = static_cast<int>(job.by_taps[1][class_h].quotient(line));
    const int x = t - line * walk_w.taps, y = line - z * walk_h.taps;
    const int at = filter_element(z, y, x);
    const std::int64_t own = group;
    if constexpr (kBackward)
      return job.filter + ((own * job.image_group + channel) * job.filter_elements + at) * job.result_group +
             n;
    return job.filter + ((own * job.result_group + n) * job.filter_elements + at) * job.image_group + channel;
  };

  const auto load = [&](int tile, int slot) {
    const bool inside = tap.z < walk_d.taps && first_channel + tap.channel < job.image_channels;
    const int d = tap.z * walk_d.tap_step, h = tap.y * walk_h.tap_step, w = tap.x * walk_w.tap_step;
    const int offset = (d * walk_h.source + h) * walk_w.source + w;
    const Element* const channel = job.image + first_channel + tap.channel;
#pragma unroll
    for (int pass = 0; pass < kPassesA; ++pass) {
      const int row = first_row + pass * kRowsAtOnce;
      const Place place = places[row];
      const bool valid = inside && place.reads(d, h, w, walk_d, walk_h, walk_w);
      const Element* const from =
          valid ? channel + static_cast<std::int64_t>(place.pixel + offset) * job.image_channels : job.image;
      if constexpr (kV == 1) {
        kept_a[pass] = valid ? *from : Element{0};
      } else {
        copy_async<kV>(address_a + 2 * (slot * Tile::kElementsA + row * Tile::kPitchA + column), from, valid);
      }
    }
    if constexpr (kSingleB) {
#pragma unroll
      for (int i = 0; i < kKeptB; ++i) {
        const int e = thread + i * kThreads;
        const int k = kBByK ? e / kN : e % kTileK, n = kBByK ? e % kN : e / kTileK;
        const Element* const from = element_of_b((first_tile + tile) * kTileK + k, n);
        kept_b[i] = from ? *from : Element{0};
      }
    } else if constexpr (kBByK) {
      constexpr int kColumnsB = kN / kV, kRowsB = kThreads / kColumnsB;
      const int n = thread % kColumnsB * kV;
#pragma unroll
      for (int k = thread / kColumnsB; k < kTileK; k += kRowsB) {
        const Element* const from = element_of_b((first_tile + tile) * kTileK + k, n);
        copy_async<kV>(address_b + 2 * (slot * Tile::kElementsB + k * Tile::kPitchB + n),
                       from ? from : job.filter, from != nullptr);
      }
    } else {
      const int at = filter_element(tap.z, tap.y, tap.x);
#pragma unroll
      for (int n = first_row; n < kN; n += kRowsAtOnce) {
        const int result = n_tile * kN + n;
        const bool valid = tap.z < walk_d.taps && result < job.result_group;
        const std::int64_t own = std::int64_t{group} * job.result_group + result;
        const Element* const from =
            valid ? job.filter + (own * job.filter_elements + at) * job.image_group + tap.channel
                  : job.filter;
        copy_async<kV>(address_b + 2 * (slot * Tile::kElementsB + n * Tile::kPitchB + column), from, valid);
      }
    }
    copies_issued();
    tap.advance(job.image_group, walk_h, walk_w);
  };
  /// Stores what load() kept in registers.
  const auto store_kept = [&](int slot) {
    if constexpr (kV == 1) {
#pragma unroll
      for (int pass = 0; pass < kPassesA; ++pass)
        tiles_a[slot * Tile::kElementsA + (first_row + pass * kRowsAtOnce) * Tile::kPitchA + column] =
            kept_a[pass];
    }
    if constexpr (kSingleB) {
#pragma unroll
      for (int i = 0; i < kKeptB; ++i) {
        const int e = thread + i * kThreads;
        const int k = kBByK ? e / kN : e % kTileK, n = kBByK ? e % kN : e / kTileK;
        tiles_b[slot * Tile::kElementsB + (kBByK ? k * Tile::kPitchB + n : n * Tile::kPitchB + k)] =
            kept_b[i];
      }
    }
  };

  const Tile sums = sum_of_tiles<Tile, kStages>(shared, count, job.bf16, load, store_kept, [](int) {});

  const int first_result = group * job.result_group;
  const bool pairs = job.result_channels % 2 == 0 && first_result % 2 == 0;
  sums.each_pair([&](int m, int n, float low, float high) {
    const int result = results[m];
    n += n_tile * kN;
    if (result < 0 || n >= job.result_group) return;
    const int channel = first_result + n;
    if (channel >= job.result_channels) return;
    const bool second = n + 1 < job.result_group && channel + 1 < job.result_channels;
    const std::int64_t at = static_cast<std::int64_t>(result) * job.result_channels + channel;
    if (job.parts > 1) {
      float* const to = job.partial + part * job.result_elements + at;
      to[0] = low;
      if (second) to[1] = high;
    } else if (pairs && second && job.aligned_result) {
      *reinterpret_cast<std::uint32_t*>(job.result + at) = to_elements(low, high, job.bf16);
    } else {
      job.result[at] = to_element(low, job.bf16);
      if (second) job.result[at + 1] = to_element(high, job.bf16);
    }
  });
}

}  // namespace kscout::cuda
