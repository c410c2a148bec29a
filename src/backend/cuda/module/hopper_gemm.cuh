#pragma once
/// \file
/// Loads tiles of the GEMMs of hopper_gemm.h. Included by hopper_gemm.cu alone.
#include "backend/cuda/module/hopper_tile.cuh"

namespace kscout::cuda {

namespace {

/// Of a grouped GEMM: the groups that have rows, one after the other in A and C.
struct Groups {
  static constexpr int kMax = 1024;
  int count;
  int first_row[kMax + 1];
  int first_unit[kMax + 1];
  std::uint16_t matrix[kMax];  ///< of B
};

/// `m` and `m_units` are those of all groups; K is not divided.
struct GroupedJob : Job {
  Groups groups;
};

/// 16 bytes from an address `bytes` after aligned 16 bytes: of these, and of the next.
__device__ uint4 shifted(const uint4& low, const uint4& high, int bytes) {
  std::uint32_t w[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
  const bool two = (bytes & 8) != 0, one = (bytes & 4) != 0;
#pragma unroll
  for (int i = 0; i < 6; ++i) w[i] = two ? w[i + 2] : w[i];
#pragma unroll
  for (int i = 0; i < 5; ++i) w[i] = one ? w[i + 1] : w[i];
  const int bits = 8 * (bytes & 3);
  return {__funnelshift_r(w[0], w[1], bits), __funnelshift_r(w[1], w[2], bits),
          __funnelshift_r(w[2], w[3], bits), __funnelshift_r(w[3], w[4], bits)};
}

/// The first `elements` of eight, then zeros.
__device__ uint4 first(uint4 eight, int elements) {
  std::uint32_t* const words = &eight.x;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (2 * i >= elements) words[i] = 0;
    if (2 * i + 1 == elements) words[i] &= 0xFFFF;
  }
  return eight;
}

__device__ uint4 load_16(const void* at) {
  uint4 eight;
  asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(eight.x), "=r"(eight.y), "=r"(eight.z), "=r"(eight.w)
               : "l"(at));
  return eight;
}

/// Copies blocks of a tile to shared memory with a warpgroup, zeros beyond the operand's ends. Block i begins
/// at (line + i * line_step, element + i * element_step). Calls `wait` between loads and stores. Fetches what
/// follows `ahead` bytes later into the level-2 cache, where `ahead` is not 0.
template <int kBlocks, class Wait>
__device__ void copy_blocks(const Source& from, std::byte* to, int thread, int line, int element,
                            int line_step, int element_step, std::int64_t ahead, Wait wait) {
  constexpr int kUnits = kBlocks * kBlock * 8 / 128;  // of 16 bytes, for each thread
  constexpr int kBatch = kUnits % 8 == 0 ? 8 : 4;
  // A thread's lines are 16 lines apart, so their addresses are equal modulo 16.
  const int chunk = thread % 8, row0 = thread / 8;
  const std::byte* const first_at = from.base + (line + row0) * from.pitch + 2 * (element + 8 * chunk);
  const int bytes = static_cast<int>(reinterpret_cast<std::uintptr_t>(first_at) % 16);
  const std::byte* const aligned = first_at - bytes;
  std::byte* const mine = to + row0 * kLineBytes + ((chunk ^ (row0 & 7)) << 4);
  const bool inside = line + (kBlocks - 1) * line_step + kBlock <= from.lines &&
                      element + (kBlocks - 1) * element_step + kBlock + 8 <= from.length;
  const auto offset = [&](int unit) {
    const int row = unit * 16, block = row / kBlock;
    return (block * line_step + row % kBlock) * from.pitch + 2 * block * element_step;
  };
#pragma unroll
  for (int begin = 0; begin < kUnits; begin += kBatch) {
    uint4 low[kBatch], high[kBatch];
    if (inside) {
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const std::byte* const at = aligned + offset(begin + i);
        low[i] = load_16(at);
        high[i] = load_16(at + 16);
        if (ahead != 0 && chunk == 0) asm volatile("prefetch.global.L2 [%0];" ::"l"(at + ahead));
      }
      wait();
#pragma unroll
      for (int i = 0; i < kBatch; ++i)
        *reinterpret_cast<uint4*>(mine + (begin + i) * 16 * kLineBytes) = shifted(low[i], high[i], bytes);
    } else {
      wait();
#pragma unroll 1
      for (int i = begin; i < begin + kBatch; ++i) {
        const int row = i * 16 + row0, block = row / kBlock;
        const int rest = from.length - (element + block * element_step + 8 * chunk);
        const int valid = line + block * line_step + row % kBlock < from.lines ? min(max(rest, 0), 8) : 0;
        const std::byte* const at = aligned + offset(i);
        const uint4 begins = valid > 0 ? load_16(at) : uint4{};
        const uint4 ends = 2 * valid > 16 - bytes ? load_16(at + 16) : uint4{};
        *reinterpret_cast<uint4*>(mine + i * 16 * kLineBytes) = first(shifted(begins, ends, bytes), valid);
      }
    }
  }
}

/// kALines, kBLines: A is column-major, B row-major.
template <int kColumns, bool kRowsA, bool kRowsB, bool kWarpsCopy, class AnyJob = kscout::cuda::Job>
struct GemmLoads {
  using Job = AnyJob;
  static constexpr int kTileN = kColumns;
  static constexpr bool kALines = kRowsA, kBLines = kRowsB, kCopies = kWarpsCopy;
  static constexpr int kBlocksN = kTileN / kBlock;

  const Job& job;
  int m0, n0, matrix, rank, cluster;

  __device__ GemmLoads(const Job& of, const Work& work, int block, int blocks)
      : job(of),
        m0(work.first_m + block * kTileM),
        n0(work.first_n),
        matrix(work.matrix),
        rank(block),
        cluster(blocks) {}

  static __device__ Work work(const Job& job, int number, int cluster) {
    return work_of(job, kTileN, number, cluster);
  }

  __device__ std::uint32_t bytes() const {
    return (job.a.aligned ? kBlocksM * kBlockBytes : 0) + (job.b.aligned ? kBlocksN * kBlockBytes : 0);
  }

  __device__ void a(int tile, std::uint64_t* barrier, std::byte* to) const {
    if (!job.a.aligned) return;
    if (kALines) {
      for (int i = 0; i < kBlocksM; ++i)
        load_box(job.a.map, barrier, to + i * kBlockBytes, m0 + i * kBlock, tile * kTileK, 0);
    } else {
      load_box(job.a.map, barrier, to, tile * kTileK, m0, 0);
    }
  }

  __device__ void b(int tile, std::uint64_t* barrier, std::byte* to) const {
    if (!job.b.aligned) return;
    const std::uint32_t all = (1u << cluster) - 1;
    if (kBLines) {
      for (int i = rank; i < kBlocksN; i += cluster)
        load_b(barrier, to + i * kBlockBytes, n0 + i * kBlock, tile * kTileK, all);
    } else {
      const int part = kTileN / cluster;
      load_b(barrier, to + rank * part * kLineBytes, tile * kTileK, n0 + rank * part, all);
    }
  }

  /// Copies what is not aligned with the 128 threads of a warpgroup, and calls `load` when memory is free.
  template <class Load>
  __device__ void copy(int tile, int end, std::byte* a, std::byte* b, int thread, Load load) const {
    constexpr int kAhead = 4;
    const int k0 = tile * kTileK;
    const bool more = tile + kAhead + 1 < end;  // the last tile may not be whole
    const auto ahead = [&](const Source& of, bool lines) -> std::int64_t {
      return more ? kAhead * (lines ? kTileK * of.pitch : kLineBytes) : 0;
    };
    if (!job.a.aligned)
      copy_blocks<kBlocksM>(job.a, a, thread, kALines ? k0 : m0, kALines ? m0 : k0, kALines ? 0 : kBlock,
                            kALines ? kBlock : 0, ahead(job.a, kALines), load);
    if (!job.b.aligned)
      copy_blocks<kBlocksN>(job.b, b, thread, kBLines ? k0 : n0, kBLines ? n0 : k0, kBLines ? 0 : kBlock,
                            kBLines ? kBlock : 0, ahead(job.b, kBLines), load);
  }

 private:
  __device__ void load_b(std::uint64_t* barrier, std::byte* to, int element, int line,
                         std::uint32_t mask) const {
    if constexpr (std::is_same_v<Job, GroupedJob>) {
      load_box_of(job.b.map, barrier, to, element, line, matrix, mask);
    } else {
      load_box(job.b.map, barrier, to, element, line, mask);
    }
  }
};

/// A tile has rows of one group.
template <int kColumns, bool kRowsB>
struct GroupedLoads : GemmLoads<kColumns, false, kRowsB, false, GroupedJob> {
  using GemmLoads<kColumns, false, kRowsB, false, GroupedJob>::GemmLoads;

  static __device__ Work work(const GroupedJob& job, int number, int cluster) {
    const Groups& groups = job.groups;
    const int unit = number / job.n_tiles;
    int at = 0;
    for (int end = groups.count; end - at > 1;) {
      const int middle = (at + end) / 2;
      if (groups.first_unit[middle] <= unit) {
        at = middle;
      } else {
        end = middle;
      }
    }
    const int first_unit = groups.first_unit[at];
    Work work = work_of(job, kColumns, number - first_unit * job.n_tiles,
                        groups.first_unit[at + 1] - first_unit, cluster);
    work.first_m += groups.first_row[at];
    work.end_m = groups.first_row[at + 1];
    work.matrix = groups.matrix[at];
    return work;
  }
};

}  // namespace

}  // namespace kscout::cuda
