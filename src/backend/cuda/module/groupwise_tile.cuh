#pragma once
/// \file
/// Tiles of the implicit GEMMs of provider `groupwise`: 32 elements along K at a time go through shared
/// memory (cp.async) to the tensor cores (mma.sync).
#include "backend/cuda/module/groupwise_conv.cuh"

namespace kscout::cuda {

inline constexpr int kTileK = 32;
inline constexpr int kGap = 8;  ///< elements after each line in shared memory: fewer bank conflicts

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

  /// Whether the element at this distance is inside the image.
  __device__ bool reads(int z, int y, int x, const Walk& along_d, const Walk& along_h,
                        const Walk& along_w) const {
    return static_cast<unsigned>(d + z) < static_cast<unsigned>(along_d.source) &&
           static_cast<unsigned>(h + y) < static_cast<unsigned>(along_h.source) &&
           static_cast<unsigned>(w + x) < static_cast<unsigned>(along_w.source);
  }
};
inline constexpr int kOutside = -(1 << 29);

/// Where the first tap of a result reads.
__device__ inline Place place_of(int image, int d, int h, int w, const Walk& along_d, const Walk& along_h,
                                 const Walk& along_w) {
  Place place{0, along_d.base + d * along_d.step, along_h.base + h * along_h.step,
              along_w.base + w * along_w.step};
  place.pixel = ((image * along_d.source + place.d) * along_h.source + place.h) * along_w.source + place.w;
  return place;
}

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
  extern __shared__ uint4 memory[];
  SharedTiles tiles;
  tiles.a = reinterpret_cast<Element*>(memory);
  tiles.b = tiles.a + kStages * Tile::kElementsA;
  tiles.places = reinterpret_cast<Place*>(tiles.b + kStages * Tile::kElementsB);
  tiles.address_a = static_cast<std::uint32_t>(__cvta_generic_to_shared(tiles.a));
  tiles.address_b = static_cast<std::uint32_t>(__cvta_generic_to_shared(tiles.b));
  return tiles;
}

/// The sum over `count` tiles along K, of which kStages - 1 are on their way: load(tile, slot) starts to copy
/// a tile, store_kept(slot) stores what it kept in registers, announce(tile) precedes load(tile - 1).
template <class Tile, int kStages, class Load, class StoreKept, class Announce>
__device__ inline Tile sum_of_tiles(const SharedTiles& shared, int count, bool bf16, Load&& load,
                                    StoreKept&& store_kept, Announce&& announce) {
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
    announce(next + 1);
    if (next < count) {
      load(next, next % kStages);
    } else {
      copies_issued();
    }
    const int slot = tile % kStages;
    sums.add(shared.address_a + 2 * slot * Tile::kElementsA, shared.address_b + 2 * slot * Tile::kElementsB,
             bf16);
    if (next < count) store_kept(next % kStages);
  }
  return sums;
}

}  // namespace kscout::cuda
