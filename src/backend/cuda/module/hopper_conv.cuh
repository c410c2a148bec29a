#pragma once
/// \file
/// Loads tiles of the implicit GEMMs of hopper_conv.h. Included by hopper_conv.cu alone.
#include "backend/cuda/module/groupwise_conv.cuh"
#include "backend/cuda/module/hopper_tile.cuh"

namespace kscout::cuda {

namespace {

/// Of an image: the tensor that loads of pixels read. Of a pixel: an element of the image that the GEMM's
/// rows (of conv_bwd_weight: K) count, width first. Arrays are by axis: width, height, depth.
struct ConvJob : Job {
  int base[3], step[3], tap_step[3];  ///< pixel x reads the image at base + x * step + tap * tap_step
  FastDivisor by_pixels[3];           ///< pixels along an axis
  FastDivisor by_taps[2];             ///< elements of the filter along an axis
  FastDivisor by_blocks;  ///< blocks of channels that tiles of K, of conv_bwd_weight tiles of N, have
  int taps, channels;
  bool has_depth;  ///< the image's tensor map has three axes, else two
};

/// A position in the image.
struct Pixel {
  int at[3], image;
};

/// An element of the filter, and the distance that it adds to a pixel's position.
struct Tap {
  int number;
  std::uint16_t offset[3];
};

__device__ Pixel pixel_of(const ConvJob& job, int number) {
  Pixel pixel;
  std::uint32_t rest = static_cast<std::uint32_t>(number);
#pragma unroll
  for (int i = 0; i < 3; ++i) {
    const std::uint32_t next = job.by_pixels[i].quotient(rest);
    pixel.at[i] = job.base[i] + static_cast<int>(rest - next * job.by_pixels[i].divisor) * job.step[i];
    rest = next;
  }
  pixel.image = static_cast<int>(rest);
  return pixel;
}

__device__ Tap tap_of(const ConvJob& job, int number) {
  Tap tap;
  tap.number = number;
  std::uint32_t rest = static_cast<std::uint32_t>(number);
#pragma unroll
  for (int i = 0; i < 3; ++i) {
    const std::uint32_t next = i < 2 ? job.by_taps[i].quotient(rest) : 0;
    const std::uint32_t x = i < 2 ? rest - next * job.by_taps[i].divisor : rest;
    tap.offset[i] = static_cast<std::uint16_t>(static_cast<int>(x) * job.tap_step[i]);
    rest = next;
  }
  return tap;
}

/// Loads channels of consecutive pixels, zeros outside of the image, into this block or into all of `mask`.
__device__ void load_pixels(const ConvJob& job, const CUtensorMap& map, std::uint64_t* barrier, void* to,
                            int channel, const Pixel& p, const Tap& tap, std::uint32_t mask) {
  const std::uint32_t there = shared_address(to), done = shared_address(barrier);
  const auto blocks = static_cast<std::uint16_t>(mask);
  if (job.has_depth) {
    if (mask <= 1) {
      asm volatile(
          "cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], "
          "[%1, {%3, %4, %5, %6, %7}], [%2], {%8, %9, %10};" ::"r"(there),
          "l"(&map), "r"(done), "r"(channel), "r"(p.at[0]), "r"(p.at[1]), "r"(p.at[2]), "r"(p.image),
          "h"(tap.offset[0]), "h"(tap.offset[1]), "h"(tap.offset[2])
          : "memory");
    } else {
      asm volatile(
          "cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
          ".multicast::cluster [%0], [%1, {%3, %4, %5, %6, %7}], [%2], {%8, %9, %10}, %11;" ::"r"(there),
          "l"(&map), "r"(done), "r"(channel), "r"(p.at[0]), "r"(p.at[1]), "r"(p.at[2]), "r"(p.image),
          "h"(tap.offset[0]), "h"(tap.offset[1]), "h"(tap.offset[2]), "h"(blocks)
          : "memory");
    }
  } else {
    if (mask <= 1) {
      asm volatile(
          "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], "
          "[%1, {%3, %4, %5, %6}], [%2], {%7, %8};" ::"r"(there),
          "l"(&map), "r"(done), "r"(channel), "r"(p.at[0]), "r"(p.at[1]), "r"(p.image), "h"(tap.offset[0]),
          "h"(tap.offset[1])
          : "memory");
    } else {
      asm volatile(
          "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
          ".multicast::cluster [%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8}, %9;" ::"r"(there),
          "l"(&map), "r"(done), "r"(channel), "r"(p.at[0]), "r"(p.at[1]), "r"(p.image), "h"(tap.offset[0]),
          "h"(tap.offset[1]), "h"(blocks)
          : "memory");
    }
  }
}

/// What loads of all directions share.
template <int kColumns, bool kRowsA, bool kRowsB>
struct ConvLoads {
  using Job = ConvJob;
  static constexpr int kTileN = kColumns;
  static constexpr bool kALines = kRowsA, kBLines = kRowsB, kCopies = false;
  static constexpr int kBlocksN = kTileN / kBlock;

  static __device__ std::uint32_t bytes() { return (kBlocksM + kBlocksN) * kBlockBytes; }
};

/// conv_fwd and conv_bwd_data: A is the image, rows are pixels; a tile of K has a block of channels of one
/// tap. In conv_bwd_data the image is the output image, the image's channels are rows of the filter, and the
/// taps go backward through the filter.
template <int kColumns, bool kBackward>
struct PixelRows : ConvLoads<kColumns, false, kBackward> {
  using Base = ConvLoads<kColumns, false, kBackward>;

  const ConvJob& job;
  Pixel pixel;
  int n0, rank, cluster;

  __device__ PixelRows(const ConvJob& of, const Work& work, int block, int blocks)
      : job(of),
        pixel(pixel_of(of, work.first_m + block * kTileM)),
        n0(work.first_n),
        rank(block),
        cluster(blocks) {}

  static __device__ Work work(const ConvJob& job, int number, int cluster) {
    return work_of(job, kColumns, number, cluster);
  }

  __device__ void a(int tile, std::uint64_t* barrier, std::byte* to) const {
    const int tap = tap_number(tile);
    load_pixels(job, job.a.map, barrier, to, channel(tile, tap), pixel, tap_of(job, tap), 0);
  }

  __device__ void b(int tile, std::uint64_t* barrier, std::byte* to) const {
    const std::uint32_t all = (1u << cluster) - 1;
    const int tap = tap_number(tile);
    if (kBackward) {
      for (int i = rank; i < Base::kBlocksN; i += cluster)
        load_box_of(job.b.map, barrier, to + i * kBlockBytes, n0 + i * kBlock, job.taps - 1 - tap,
                    channel(tile, tap), all);
    } else {
      const int part = kColumns / cluster;
      load_box_of(job.b.map, barrier, to + rank * part * kLineBytes, channel(tile, tap), tap,
                  n0 + rank * part, all);
    }
  }

 private:
  __device__ int tap_number(int tile) const {
    return static_cast<int>(job.by_blocks.quotient(static_cast<std::uint32_t>(tile)));
  }
  __device__ int channel(int tile, int tap) const {
    return (tile - tap * static_cast<int>(job.by_blocks.divisor)) * kBlock;
  }
};

/// conv_bwd_weight: K are the pixels, A is the output image, B the input image; a tile of N has channels of
/// one tap.
template <int kColumns>
struct PixelColumns : ConvLoads<kColumns, true, true> {
  using Base = ConvLoads<kColumns, true, true>;

  const ConvJob& job;
  Tap tap;
  int m0, channel, rank, cluster;

  __device__ PixelColumns(const ConvJob& of, const Work& work, int block, int blocks)
      : job(of),
        tap(tap_of(of, tap_number(of, work.n_tile))),
        m0(work.first_m + block * kTileM),
        channel(work.first_n - tap.number * of.channels),
        rank(block),
        cluster(blocks) {}

  static __device__ Work work(const ConvJob& job, int number, int cluster) {
    Work work = work_of(job, kColumns, number, cluster);
    const int tap = tap_number(job, work.n_tile);
    const int block = work.n_tile - tap * static_cast<int>(job.by_blocks.divisor);
    work.first_n = tap * job.channels + block * kColumns;
    work.end_n = (tap + 1) * job.channels;
    return work;
  }

  __device__ void a(int tile, std::uint64_t* barrier, std::byte* to) const {
    for (int i = 0; i < kBlocksM; ++i)
      load_box(job.a.map, barrier, to + i * kBlockBytes, m0 + i * kBlock, tile * kTileK, 0);
  }

  __device__ void b(int tile, std::uint64_t* barrier, std::byte* to) const {
    const std::uint32_t all = (1u << cluster) - 1;
    const Pixel pixel = pixel_of(job, tile * kTileK);
    for (int i = rank; i < Base::kBlocksN; i += cluster)
      load_pixels(job, job.b.map, barrier, to + i * kBlockBytes, channel + i * kBlock, pixel, tap, all);
  }

 private:
  static __device__ int tap_number(const ConvJob& job, int n_tile) {
    return static_cast<int>(job.by_blocks.quotient(static_cast<std::uint32_t>(n_tile)));
  }
};

}  // namespace

}  // namespace kscout::cuda
