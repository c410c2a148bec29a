#pragma once
/// \file
/// Implicit GEMMs of provider `groupwise`. Included by groupwise_gemm.cu alone.
///
/// A block computes a tile of one group's product, or of several neighbouring groups together: then a kernel
/// before it has written the filters of these groups as one matrix, with zeros between the groups. Tiles of
/// 32 elements along K go through shared memory (cp.async) to the tensor cores (mma.sync).
#include "backend/cuda/module/groupwise_conv.cuh"

namespace kscout::cuda {

inline constexpr int kTileK = 32;
inline constexpr int kGap = 8;  ///< elements after each line in shared memory: fewer bank conflicts

struct GemmJob {
  const Element* image;   ///< that is read
  const Element* filter;  ///< of conv_bwd_weight: the gradient of the output image
  Element* result;
  float* partial;  ///< of parts > 1: [part][elements of the result]
  Walks walks;
  std::int32_t images;
  std::int32_t image_channels, result_channels;  ///< of all groups; result_channels of conv_bwd_weight: k
  std::int32_t image_per, result_per;            ///< of one group
  std::int32_t image_group, result_group;        ///< of the groups that a block computes together
  std::int32_t merged_groups;
  std::int32_t filter_y, filter_x, filter_elements;
  std::int32_t result_size[3];  ///< d, h, w of the computed image
  std::int32_t m_tiles, n_tiles, parts;
  std::int64_t result_elements;
  FastDivisor by_image_group, by_image_per, by_result_per;
  FastDivisor by_taps[3][kMaxClasses];        ///< of the walks
  FastDivisor by_pixels, by_plane, by_width;  ///< of conv_bwd_weight: d * h * w, h * w, w of the output image
  bool bf16;
  bool aligned_result;  ///< to pairs of elements
};

#ifdef __CUDACC__

template <int kV>
__device__ inline void copy_async(std::uint32_t to, const Element* from, bool valid) {
  static_assert(kV == 8 || kV == 2);
  if constexpr (kV == 8) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(valid ? 16 : 0));
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(valid ? 4 : 0));
  }
}
__device__ inline void copies_issued() { asm volatile("cp.async.commit_group;"); }
template <int kPending>
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending));
}

template <bool kTransposed>
__device__ inline void load_matrices(std::uint32_t (&to)[4], std::uint32_t from) {
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from));
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from));
  }
}

template <bool kBf16>
__device__ inline void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                    std::uint32_t b1) {
  if constexpr (kBf16) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

/// The part of a tile of C that a warp computes, from tiles of A and B in shared memory: A as lines of M
/// [m][k] or, with kAByK, lines of K [k][m]; B as [n][k] or [k][n].
template <int kM, int kN, int kWarpM, int kWarpN, bool kAByK, bool kBByK>
struct WarpTile {
  static constexpr int kPitchA = (kAByK ? kM : kTileK) + kGap;
  static constexpr int kPitchB = (kBByK ? kN : kTileK) + kGap;
  static constexpr int kElementsA = (kAByK ? kTileK : kM) * kPitchA;
  static constexpr int kElementsB = (kBByK ? kTileK : kN) * kPitchB;
  static constexpr int kWarpsM = kM / kWarpM;

  float sums[kWarpM / 16][kWarpN / 8][4] = {};

  /// First row and column of the calling warp.
  __device__ static int row() { return static_cast<int>(threadIdx.x) / 32 % kWarpsM * kWarpM; }
  __device__ static int column() { return static_cast<int>(threadIdx.x) / 32 / kWarpsM * kWarpN; }

  __device__ void add(std::uint32_t a, std::uint32_t b, bool bf16) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int low = lane % 8, second = lane / 8 % 2, fourth = lane / 16;
#pragma unroll
    for (int k = 0; k < kTileK; k += 16) {
      std::uint32_t fragment_a[kWarpM / 16][4], fragment_b[kWarpN / 16][4];
#pragma unroll
      for (int i = 0; i < kWarpM / 16; ++i) {
        const int m = row() + 16 * i;
        const int at = kAByK ? (k + low + 8 * fourth) * kPitchA + m + 8 * second
                             : (m + low + 8 * second) * kPitchA + k + 8 * fourth;
        load_matrices<kAByK>(fragment_a[i], a + 2 * at);
      }
#pragma unroll
      for (int i = 0; i < kWarpN / 16; ++i) {
        const int n = column() + 16 * i;
        const int at = kBByK ? (k + low + 8 * second) * kPitchB + n + 8 * fourth
                             : (n + low + 8 * fourth) * kPitchB + k + 8 * second;
        load_matrices<kBByK>(fragment_b[i], b + 2 * at);
      }
      if (bf16) {
        multiply<true>(fragment_a, fragment_b);
      } else {
        multiply<false>(fragment_a, fragment_b);
      }
    }
  }

  /// Calls store(row, column, value, value of the next column) for all pairs of the tile.
  template <class Store>
  __device__ void each_pair(Store store) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int i = 0; i < kWarpM / 16; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int m = row() + 16 * i + 8 * half + lane / 4;
#pragma unroll
        for (int j = 0; j < kWarpN / 8; ++j)
          store(m, column() + 8 * j + 2 * (lane % 4), sums[i][j][2 * half], sums[i][j][2 * half + 1]);
      }
    }
  }

 private:
  template <bool kBf16>
  __device__ void multiply(const std::uint32_t (&a)[kWarpM / 16][4],
                           const std::uint32_t (&b)[kWarpN / 16][4]) {
#pragma unroll
    for (int i = 0; i < kWarpM / 16; ++i) {
#pragma unroll
      for (int j = 0; j < kWarpN / 8; ++j)
        multiply_add<kBf16>(sums[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
    }
  }
};

/// Position of a vector along K: filter element (z, y, x) of the class and channel.
struct TapState {
  int z, y, x, channel;
  __device__ TapState(int k, int channels, const Walk& h, const Walk& w) {
    const int tap = k / channels;
    channel = k - tap * channels;
    const int plane = h.taps * w.taps;
    z = plane == 0 ? 0 : tap / plane;
    const int rest = plane == 0 ? 0 : tap - z * plane;
    y = plane == 0 ? 0 : rest / w.taps;
    x = plane == 0 ? 0 : rest - y * w.taps;
  }
  __device__ void advance(int channels, const Walk& h, const Walk& w) {
    channel += kTileK;
    while (channel >= channels) {
      channel -= channels;
      if (++x < w.taps) continue;
      x = 0;
      if (++y < h.taps) continue;
      y = 0;
      ++z;
    }
  }
};

/// An image element: its pixel's number, which may be outside the image, and its place along each axis.
struct Place {
  int pixel, d, h, w;
};
inline constexpr int kOutside = -(1 << 29);

constexpr int stages_of(int vector) { return vector == 1 ? 2 : 4; }

template <int kM, int kN, int kWarpM, int kWarpN>
constexpr int threads_of() {
  return kM / kWarpM * (kN / kWarpN) * 32;
}

/// A block's shared memory: the stages of A's tiles, those of B's, then places.
struct SharedTiles {
  Element* a;
  Element* b;
  Place* places;
  std::uint32_t address_a, address_b;  ///< of a and b, as instructions take them
};
template <class Tile, int kStages>
__device__ inline SharedTiles shared_tiles() {
  extern __shared__ uint4 shared[];
  SharedTiles tiles;
  tiles.a = reinterpret_cast<Element*>(shared);
  tiles.b = tiles.a + kStages * Tile::kElementsA;
  tiles.places = reinterpret_cast<Place*>(tiles.b + kStages * Tile::kElementsB);
  tiles.address_a = static_cast<std::uint32_t>(__cvta_generic_to_shared(tiles.a));
  tiles.address_b = static_cast<std::uint32_t>(__cvta_generic_to_shared(tiles.b));
  return tiles;
}

/// conv_fwd and conv_bwd_data: rows are elements of the computed image, columns its channels, K the filter
/// elements and channels of the other image.
template <bool kBackward, int kM, int kN, int kWarpM, int kWarpN, int kV>
__global__ void __launch_bounds__((threads_of<kM, kN, kWarpM, kWarpN>()))
    gather_gemm(const __grid_constant__ GemmJob job) {
  constexpr int kThreads = threads_of<kM, kN, kWarpM, kWarpN>();
  constexpr int kStages = stages_of(kV);
  constexpr bool kBByK = kBackward;
  using Tile = WarpTile<kM, kN, kWarpM, kWarpN, false, kBByK>;
  const auto [tiles_a, tiles_b, places, address_a, address_b] = shared_tiles<Tile, kStages>();
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
      place.d = walk_d.base + d * walk_d.step;
      place.h = walk_h.base + h * walk_h.step;
      place.w = walk_w.base + w * walk_w.step;
      place.pixel = ((image * walk_d.source + place.d) * walk_h.source + place.h) * walk_w.source + place.w;
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
      const bool valid = inside &&
                         static_cast<unsigned>(place.d + d) < static_cast<unsigned>(walk_d.source) &&
                         static_cast<unsigned>(place.h + h) < static_cast<unsigned>(walk_h.source) &&
                         static_cast<unsigned>(place.w + w) < static_cast<unsigned>(walk_w.source);
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

  for (int tile = 0; tile < kStages - 1; ++tile) {
    if (tile < count) {
      load(tile, tile);
      store_kept(tile);
    } else {
      copies_issued();
    }
  }
  Tile sums;
  for (int tile = 0; tile < count; ++tile) {
    wait_for_copies<kStages - 2>();
    __syncthreads();
    const int next = tile + kStages - 1;
    if (next < count) {
      load(next, next % kStages);
    } else {
      copies_issued();
    }
    const int slot = tile % kStages;
    sums.add(address_a + 2 * slot * Tile::kElementsA, address_b + 2 * slot * Tile::kElementsB, job.bf16);
    if (next < count) store_kept(next % kStages);
  }

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

/// conv_bwd_weight: rows are channels of the output image, columns filter elements and channels of the input
/// image, K the elements of the output image.
template <int kM, int kN, int kWarpM, int kWarpN, int kV>
__global__ void __launch_bounds__((threads_of<kM, kN, kWarpM, kWarpN>()))
    weight_gemm(const __grid_constant__ GemmJob job) {
  constexpr int kThreads = threads_of<kM, kN, kWarpM, kWarpN>();
  constexpr int kStages = stages_of(kV);
  using Tile = WarpTile<kM, kN, kWarpM, kWarpN, true, true>;
  // places: [kStages + 1][kTileK]
  const auto [tiles_a, tiles_b, places, address_a, address_b] = shared_tiles<Tile, kStages>();
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
      place.d = walk_d.base + d * walk_d.step;
      place.h = walk_h.base + h * walk_h.step;
      place.w = walk_w.base + w * walk_w.step;
      place.pixel = ((image * walk_d.source + place.d) * walk_h.source + place.h) * walk_w.source + place.w;
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
      const bool valid = inside_b &&
                         static_cast<unsigned>(place.d + d) < static_cast<unsigned>(walk_d.source) &&
                         static_cast<unsigned>(place.h + h) < static_cast<unsigned>(walk_h.source) &&
                         static_cast<unsigned>(place.w + w) < static_cast<unsigned>(walk_w.source);
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
  for (int tile = 0; tile < kStages - 1; ++tile) {
    if (tile < count) {
      load(tile, tile);
      store_kept(tile);
    } else {
      copies_issued();
    }
  }
  Tile sums;
  for (int tile = 0; tile < count; ++tile) {
    wait_for_copies<kStages - 2>();
    __syncthreads();
    const int next = tile + kStages - 1;
    find_places(next + 1);
    if (next < count) {
      load(next, next % kStages);
    } else {
      copies_issued();
    }
    const int slot = tile % kStages;
    sums.add(address_a + 2 * slot * Tile::kElementsA, address_b + 2 * slot * Tile::kElementsB, job.bf16);
    if (next < count) store_kept(next % kStages);
  }

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
#endif

}  // namespace kscout::cuda
