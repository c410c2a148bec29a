#pragma once
/// \file
/// Computes tiles of C from tiles of A and B in shared memory, for kernels that differ in how they load them.
///
/// A class tells hopper_tiles() how:
///
///     struct Loads {
///       using Job = ...;                       // the kernel's argument, of a class that inherits Job
///       static constexpr int kTileN = 128;     // columns of a tile
///       static constexpr bool kALines = false; // the lines of A's tiles are rows of K, else columns of A
///       static constexpr bool kBLines = false; // the same of B
///       static constexpr bool kCopies = false; // warps copy A, B or both
///       static Work work(const Job&, int number, int cluster);
///       Loads(const Job&, const Work&, int rank, int cluster);     // of a block, for one tile of C
///       std::uint32_t bytes();                                     // that a() and b() load
///       void a(int tile, std::uint64_t* barrier, std::byte* to);   // loads a tile of 64 columns of A
///       void b(int tile, std::uint64_t* barrier, std::byte* to);   // of B, into all blocks of the cluster
///       void copy(...);                                            // where kCopies: see GemmLoads
///     };
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "backend/cuda/module/hopper_instructions.cuh"

namespace kscout::cuda {

namespace {

constexpr int kTileM = 128;
constexpr int kBlocksM = kTileM / kBlock;
constexpr int kTileK = kBlock;
constexpr int kConsumers = 2;  ///< warpgroups, each computes 64 rows of a tile
constexpr int kPipelineBytes = 192 * 1024;
/// Each warp stores eight rows at a time; lines of this distance have few bank conflicts.
template <int kTileN>
constexpr int kStorePitch = 2 * kTileN + 16;

/// An operand in global memory. Where its address and the distance of its lines are multiples of 16 bytes,
/// the tensor memory accelerator loads it, else warps do.
struct Source {
  CUtensorMap map;
  const std::byte* base;
  std::int64_t pitch;  ///< bytes between lines
  int lines, length;
  bool aligned;
};

enum class Activation : std::uint8_t { none, relu, gelu };

struct Job {
  Source a, b;
  void* c;
  const void* bias = nullptr;  ///< n elements of C's type, or null
  Activation activation = Activation::none;
  std::int64_t ldc;
  float* partial;  ///< of parts > 1: [part][m][partial_ld]
  std::int64_t partial_ld;
  int m, n;
  int k_tiles, k_tiles_of_part;
  int m_units, n_tiles, parts;  ///< a unit is the rows that a cluster computes at a time
  float alpha;
};

/// What a cluster computes: columns from `first_n` to `end_n`, at most those of a tile, of the rows from
/// `first_m` of its first block to `end_m`. `matrix`: of B, where it has several.
struct Work {
  int first_m, end_m;
  int n_tile, first_n, end_n;
  int part, matrix;
};

/// Orders tiles so that those which are computed at the same time share lines of A and B.
__device__ Work work_of(const Job& job, int tile_n, int tile, int m_units, int cluster) {
  constexpr int kRun = 16;  // rows of tiles whose A stays in the level-2 cache
  const int run_units = kRun / cluster;
  const int of_run = run_units * job.n_tiles;
  const int run = tile / of_run;
  const int rows = min(run_units, m_units - run * run_units);
  const int n_tile = tile % of_run / rows;
  return {.first_m = (run * run_units + tile % of_run % rows) * cluster * kTileM,
          .end_m = job.m,
          .n_tile = n_tile,
          .first_n = n_tile * tile_n,
          .end_n = job.n,
          .part = 0,
          .matrix = 0};
}
__device__ Work work_of(const Job& job, int tile_n, int number, int cluster) {
  const int tiles = job.m_units * job.n_tiles;
  Work work = work_of(job, tile_n, number % tiles, job.m_units, cluster);
  work.part = number / tiles;
  return work;
}

template <class T>
__device__ std::uint32_t pair(float x, float y) {
  if constexpr (std::is_same_v<T, __half>) {
    const __half2 both = __floats2half2_rn(x, y);
    return *reinterpret_cast<const std::uint32_t*>(&both);
  } else {
    const __nv_bfloat162 both = __floats2bfloat162_rn(x, y);
    return *reinterpret_cast<const std::uint32_t*>(&both);
  }
}

/// The element of C of a sum, before it is rounded.
template <class T>
__device__ float element(const Job& job, float sum, int column) {
  float x = job.alpha != 0 ? job.alpha * sum : 0;  // as in BLAS: A and B do not count
  if (job.bias && column < job.n) x += static_cast<float>(static_cast<const T*>(job.bias)[column]);
  if (job.activation == Activation::relu) return fmaxf(x, 0);
  // The tanh form of GELU: 0.5 (1 + tanh(y)) = 1 / (1 + exp(-2 y)).
  if (job.activation == Activation::gelu)
    return x / (1 + __expf(-2 * 0.7978845608F * (x + 0.044715F * x * x * x)));
  return x;
}

/// Stores 16 rows that one warp computed, in aligned pieces of 16 bytes where they are whole. In `memory` a
/// row has the same distance from 16 bytes as in C.
template <class T, int kTileN>
__device__ void store_rows(const Job& job, const Work& work, std::byte* memory, const float* sums, int row0) {
  const int lane = threadIdx.x % 32;
  const int column = work.first_n;
  const int bytes = 2 * min(work.end_n - column, kTileN);
  const auto row_at = [&](int row) { return static_cast<std::byte*>(job.c) + 2 * (row * job.ldc + column); };
  const auto shift_of = [](const std::byte* at) {
    return static_cast<int>(reinterpret_cast<std::uintptr_t>(at) % 16);
  };
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = row0 + 8 * h;
    const int shift = shift_of(row_at(row + lane / 4));
    std::byte* const line = memory + lane / 4 * kStorePitch<kTileN> + shift + lane % 4 * 4;
#pragma unroll
    for (int i = 0; i < kTileN / 8; ++i) {
      const int first = column + 8 * i + lane % 4 * 2;
      const std::uint32_t two = pair<T>(element<T>(job, sums[4 * i + 2 * h], first),
                                        element<T>(job, sums[4 * i + 2 * h + 1], first + 1));
      if (shift % 4 == 0) {
        *reinterpret_cast<std::uint32_t*>(line + 16 * i) = two;
      } else {
        *reinterpret_cast<std::uint16_t*>(line + 16 * i) = static_cast<std::uint16_t>(two);
        *reinterpret_cast<std::uint16_t*>(line + 16 * i + 2) = static_cast<std::uint16_t>(two >> 16);
      }
    }
    __syncwarp();
    const int rows = min(work.end_m - row, 8);
    for (int i = 0; i < rows; ++i) {
      std::byte* const at = row_at(row + i);
      const int before = shift_of(at), end = before + bytes;
      const std::byte* const from = memory + i * kStorePitch<kTileN>;
      std::byte* const to = at - before;
      if (lane >= (before > 0 ? 1 : 0) && lane < end / 16)
        reinterpret_cast<uint4*>(to)[lane] = reinterpret_cast<const uint4*>(from)[lane];
      // Elements of pieces that are not whole: lanes 0 to 7 at the begin, 8 to 15 at the end.
      const int byte = lane < 8 ? 2 * lane : end / 16 * 16 + 2 * (lane - 8);
      const bool stores = lane < 8 ? before > 0 && byte >= before : byte >= 16 || before == 0;
      if (lane < 16 && stores && byte < end)
        *reinterpret_cast<std::uint16_t*>(to + byte) = *reinterpret_cast<const std::uint16_t*>(from + byte);
    }
    __syncwarp();
  }
}

/// Two warpgroups copy the tiles in turn.
constexpr int producers_of(bool copies) { return copies ? 2 : 1; }
constexpr int threads_of(bool copies) { return 128 * (kConsumers + producers_of(copies)); }

template <class T, class Loads>
__global__ void __launch_bounds__(threads_of(Loads::kCopies), 1)
    hopper_tiles(const __grid_constant__ typename Loads::Job job) {
  constexpr int kTileN = Loads::kTileN;
  constexpr bool kALines = Loads::kALines, kBLines = Loads::kBLines, kCopies = Loads::kCopies;
  constexpr int kBlocksN = kTileN / kBlock;
  constexpr int kStageBytes = (kBlocksM + kBlocksN) * kBlockBytes;
  constexpr int kStages = kPipelineBytes / kStageBytes;
  constexpr int kProducers = producers_of(kCopies);
  extern __shared__ std::byte unaligned[];
  __shared__ std::uint64_t full[kStages], empty[kStages];
  std::byte* const memory = unaligned + (1024 - shared_address(unaligned) % 1024) % 1024;

  std::uint32_t rank, cluster;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(cluster));
  const int clusters = gridDim.x / cluster, mine = blockIdx.x / cluster;
  const int works = job.m_units * job.n_tiles * job.parts;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      barrier_init(&full[i], kCopies ? 1 + 4 : 1);
      barrier_init(&empty[i], kConsumers * cluster);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  if (cluster > 1) {
    cluster_sync();
  } else {
    __syncthreads();
  }

  const int group = threadIdx.x / 128;
  int stage = 0;
  std::uint32_t phase = 0;
  const auto next_stage = [&] {
    if (++stage == kStages) {
      stage = 0;
      phase ^= 1;
    }
  };
  if (group >= kConsumers) {
    if constexpr (kCopies) {
      asm volatile("setmaxnreg.dec.sync.aligned.u32 96;");
    } else {
      asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    }
    const int thread = threadIdx.x % 128;
    const int producer = group - kConsumers;
    int turn = 0;
    for (int number = mine; number < works && (kCopies || thread == 0); number += clusters) {
      const Work work = Loads::work(job, number, cluster);
      const Loads loads(job, work, rank, cluster);
      const int begin = work.part * job.k_tiles_of_part;
      const int end = min(begin + job.k_tiles_of_part, job.k_tiles);
      for (int tile = begin; tile < end; ++tile, ++turn) {
        if (kProducers > 1 && turn % kProducers != producer) {
          next_stage();
          continue;
        }
        std::byte* const a = memory + stage * kStageBytes;
        std::byte* const b = a + kBlocksM * kBlockBytes;
        bool waited = false;
        const auto wait_and_load = [&] {
          if (waited) return;
          waited = true;
          barrier_wait(&empty[stage], phase ^ 1);
          if (thread != 0) return;
          barrier_expect(&full[stage], loads.bytes());
          loads.a(tile, &full[stage], a);
          loads.b(tile, &full[stage], b);
        };
        if constexpr (kCopies) {
          loads.copy(tile, end, a, b, thread, wait_and_load);
          asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
          __syncwarp();
          if (thread % 32 == 0) barrier_arrive(&full[stage]);
        } else {
          wait_and_load();
        }
        next_stage();
      }
    }
    __syncwarp();
  } else {
    if constexpr (kCopies) {
      asm volatile("setmaxnreg.inc.sync.aligned.u32 160;");
    } else {
      asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    }
    const int thread = threadIdx.x % 128;
    const int warp = threadIdx.x / 32;
    std::byte* const stores = memory + kStages * kStageBytes + warp * 8 * kStorePitch<kTileN>;
    float sums[kTileN / 2];
    const auto release = [&](int of) {
      if (thread < cluster) barrier_arrive_at(&empty[of], thread);
    };
    for (int number = mine; number < works; number += clusters) {
      const Work work = Loads::work(job, number, cluster);
      const int row0 = work.first_m + rank * kTileM + warp * 16;
      const int begin = work.part * job.k_tiles_of_part;
      const int end = min(begin + job.k_tiles_of_part, job.k_tiles);
      int earlier = -1;
      for (int tile = begin; tile < end; ++tile) {
        barrier_wait(&full[stage], phase);
        const std::uint32_t at = shared_address(memory + stage * kStageBytes);
        std::uint64_t a = matrix_at(at + group * kBlockBytes);
        std::uint64_t b = matrix_at(at + kBlocksM * kBlockBytes);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int i = 0; i < kTileK / 16; ++i) {
          Wgmma<T, kTileN, kALines, kBLines>::add(sums, a, b, tile > begin || i > 0);
          a += (kALines ? 16 * kLineBytes : 32) >> 4;
          b += (kBLines ? 16 * kLineBytes : 32) >> 4;
        }
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
        if (earlier >= 0) release(earlier);
        earlier = stage;
        next_stage();
      }
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
      if (earlier >= 0) release(earlier);

      if (job.parts == 1) {
        store_rows<T, kTileN>(job, work, stores, sums, row0);
        continue;
      }
      // A thread has columns 8 i + lane % 4 * 2 + {0, 1} of rows lane / 4 + {0, 8}.
      float* const part = job.partial + work.part * job.partial_ld * job.m;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int row = row0 + thread % 32 / 4 + 8 * h;
#pragma unroll
        for (int i = 0; i < kTileN / 8; ++i) {
          const int column = work.first_n + 8 * i + thread % 4 * 2;
          if (row >= job.m || column >= work.end_n) continue;
          const float2 two = {sums[4 * i + 2 * h], sums[4 * i + 2 * h + 1]};
          *reinterpret_cast<float2*>(part + row * job.partial_ld + column) = begin < end ? two : float2{};
        }
      }
    }
  }
  if (cluster > 1) cluster_sync();  // no block ends while another arrives at its barriers
}

template <class T>
__global__ void sum_parts(const __grid_constant__ Job job) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  if (column >= job.n) return;
  for (int row = blockIdx.y; row < job.m; row += gridDim.y) {
    float sum = 0;
    for (int part = 0; part < job.parts; ++part)
      sum += job.partial[(std::int64_t{part} * job.m + row) * job.partial_ld + column];
    static_cast<T*>(job.c)[row * job.ldc + column] = static_cast<T>(element<T>(job, sum, column));
  }
}

}  // namespace

}  // namespace kscout::cuda
