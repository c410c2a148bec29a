#pragma once
/// \file
/// The device's side of hopper_gemm.h. Included by hopper_gemm.cu alone.
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace kscout::cuda {

namespace {

// A tile of an operand consists of blocks of 64 lines x 64 elements, which is what a swizzle of 128 bytes
// holds.
constexpr int kBlock = 64;
constexpr int kBlockBytes = kBlock * kBlock * 2;
constexpr int kLineBytes = kBlock * 2;
constexpr int kTileM = 128;
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

template <bool kGrouped>
using JobOf = std::conditional_t<kGrouped, GroupedJob, Job>;

// ---- Instructions of sm_90a.

__device__ std::uint32_t shared_address(const void* at) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(at));
}

__device__ void barrier_init(std::uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals));
}
__device__ void barrier_expect(std::uint64_t* barrier, std::uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(bytes)
               : "memory");
}
__device__ void barrier_wait(std::uint64_t* barrier, std::uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\nagain:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n}" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}
__device__ void barrier_arrive(std::uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
/// Arrives at the barrier of the same name in a block of the cluster.
__device__ void barrier_arrive_at(std::uint64_t* barrier, std::uint32_t block) {
  asm volatile(
      "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(shared_address(barrier)),
      "r"(block)
      : "memory");
}
__device__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/// Loads a box into this block, or into all blocks of `mask`.
__device__ void load_box(const CUtensorMap& map, std::uint64_t* barrier, void* to, int element, int line,
                         std::uint32_t mask) {
  if (mask <= 1) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], "
        "[%2];" ::"r"(shared_address(to)),
        "l"(&map), "r"(shared_address(barrier)), "r"(element), "r"(line)
        : "memory");
  } else {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], "
        "[%1, {%3, %4}], [%2], %5;" ::"r"(shared_address(to)),
        "l"(&map), "r"(shared_address(barrier)), "r"(element), "r"(line),
        "h"(static_cast<std::uint16_t>(mask))
        : "memory");
  }
}
/// The same of a box in one of several matrices.
__device__ void load_box_of(const CUtensorMap& map, std::uint64_t* barrier, void* to, int element, int line,
                            int matrix, std::uint32_t mask) {
  if (mask <= 1) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, "
        "%5}], [%2];" ::"r"(shared_address(to)),
        "l"(&map), "r"(shared_address(barrier)), "r"(element), "r"(line), "r"(matrix)
        : "memory");
  } else {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], "
        "[%1, {%3, %4, %5}], [%2], %6;" ::"r"(shared_address(to)),
        "l"(&map), "r"(shared_address(barrier)), "r"(element), "r"(line), "r"(matrix),
        "h"(static_cast<std::uint16_t>(mask))
        : "memory");
  }
}
/// The matrix of wgmma at an address: lines of 128 bytes, swizzled, eight of them in 1,024 bytes.
__device__ std::uint64_t matrix_at(std::uint32_t address) {
  constexpr std::uint64_t kSwizzle128 = std::uint64_t{1} << 62;
  constexpr std::uint64_t kEightLines = std::uint64_t{8 * kLineBytes >> 4} << 32;
  constexpr std::uint64_t kNextBlock = std::uint64_t{kBlockBytes >> 4} << 16;
  return kSwizzle128 | kEightLines | kNextBlock | ((address & 0x3FFFF) >> 4);
}

// The operands of an instruction of N columns: N / 2 registers of the result, two matrices, whether to add.
#define KSCOUT_R4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define KSCOUT_R16(d, i) KSCOUT_R4(d, i), KSCOUT_R4(d, i + 4), KSCOUT_R4(d, i + 8), KSCOUT_R4(d, i + 12)
#define KSCOUT_R32(d, i) KSCOUT_R16(d, i), KSCOUT_R16(d, i + 16)
#define KSCOUT_R64(d, i) KSCOUT_R32(d, i), KSCOUT_R32(d, i + 32)
#define KSCOUT_R96(d, i) KSCOUT_R64(d, i), KSCOUT_R32(d, i + 64)
#define KSCOUT_R128(d, i) KSCOUT_R64(d, i), KSCOUT_R64(d, i + 64)
#define KSCOUT_N32                                                                        \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23" \
  ",%24,%25,%26,%27,%28,%29,%30,%31"
#define KSCOUT_N64                                                                                   \
  KSCOUT_N32                                                                                         \
  ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55" \
  ",%56,%57,%58,%59,%60,%61,%62,%63"
#define KSCOUT_N96                                                                                   \
  KSCOUT_N64                                                                                         \
  ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87" \
  ",%88,%89,%90,%91,%92,%93,%94,%95"
#define KSCOUT_N128                                                                                       \
  KSCOUT_N96                                                                                              \
  ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116" \
  ",%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"

template <class T, int kN, bool kATransposed, bool kBTransposed>
struct Wgmma;

#define KSCOUT_WGMMA(TYPE, WORD, N, REGISTERS, NAMES, A, B, ADD, TA, TB)                                \
  template <bool kATransposed, bool kBTransposed>                                                       \
  struct Wgmma<TYPE, N, kATransposed, kBTransposed> {                                                   \
    static __device__ void add(float (&d)[N / 2], std::uint64_t a, std::uint64_t b, int sums) {         \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " ADD ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N \
                   "k16.f32." WORD "." WORD " {" NAMES "}, " A ", " B ", p, 1, 1, " TA ", " TB ";\n}"   \
                   : REGISTERS(d, 0)                                                                    \
                   : "l"(a), "l"(b), "r"(sums), "n"(kATransposed ? 1 : 0), "n"(kBTransposed ? 1 : 0));  \
    }                                                                                                   \
  };
#define KSCOUT_WGMMAS(TYPE, WORD)                                                           \
  KSCOUT_WGMMA(TYPE, WORD, 64, KSCOUT_R32, KSCOUT_N32, "%32", "%33", "%34", "%35", "%36")   \
  KSCOUT_WGMMA(TYPE, WORD, 128, KSCOUT_R64, KSCOUT_N64, "%64", "%65", "%66", "%67", "%68")  \
  KSCOUT_WGMMA(TYPE, WORD, 192, KSCOUT_R96, KSCOUT_N96, "%96", "%97", "%98", "%99", "%100") \
  KSCOUT_WGMMA(TYPE, WORD, 256, KSCOUT_R128, KSCOUT_N128, "%128", "%129", "%130", "%131", "%132")
KSCOUT_WGMMAS(__nv_bfloat16, "bf16")
KSCOUT_WGMMAS(__half, "f16")
#undef KSCOUT_WGMMAS
#undef KSCOUT_WGMMA

// ---- The kernel.

/// What a cluster computes: rows from `first_m` of its first block to `end_m`, with a matrix of B.
struct Work {
  int first_m, end_m, first_n, part, matrix;

  __device__ Work(const Job& job, int number, int cluster) : end_m(job.m), matrix(0) {
    const int tiles = job.m_units * job.n_tiles;
    part = number / tiles;
    place(number % tiles, job.m_units, job.n_tiles, cluster);
  }
  __device__ Work(const GroupedJob& job, int number, int cluster) : part(0) {
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
    place(number - first_unit * job.n_tiles, groups.first_unit[at + 1] - first_unit, job.n_tiles, cluster);
    first_m += groups.first_row[at];
    end_m = groups.first_row[at + 1];
    matrix = groups.matrix[at];
  }

 private:
  __device__ void place(int tile, int m_units, int n_tiles, int cluster) {
    constexpr int kRun = 16;  // rows of tiles whose A stays in the level-2 cache
    const int run_units = kRun / cluster;
    const int of_run = run_units * n_tiles;
    const int run = tile / of_run;
    const int rows = min(run_units, m_units - run * run_units);
    first_m = (run * run_units + tile % of_run % rows) * cluster * kTileM;
    first_n = tile % of_run / rows;
  }
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
  float x = job.alpha * sum;
  if (job.bias && column < job.n) x += static_cast<float>(static_cast<const T*>(job.bias)[column]);
  if (job.activation == Activation::relu) return fmaxf(x, 0);
  // The tanh form of GELU: 0.5 (1 + tanh(y)) = 1 / (1 + exp(-2 y)).
  if (job.activation == Activation::gelu)
    return x / (1 + __expf(-2 * 0.7978845608F * (x + 0.044715F * x * x * x)));
  return x;
}

/// Stores 16 rows that one warp computed, in aligned pieces of 16 bytes where they are whole. In `memory` a
/// row has the same distance from 16 bytes as in C. Rows end at `end_m`.
template <class T, int kTileN>
__device__ void store_rows(const Job& job, std::byte* memory, const float* sums, int row0, int end_m,
                           int column) {
  const int lane = threadIdx.x % 32;
  const int bytes = 2 * min(job.n - column, kTileN);
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
    const int rows = min(end_m - row, 8);
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

/// kALines, kBLines: the lines of A and B are rows of K (A is column-major, B row-major). kCopies: warps copy
/// A, B or both. kGrouped: B has a matrix for each group.
template <class T, int kTileN, bool kALines, bool kBLines, bool kCopies, bool kGrouped = false>
__global__ void __launch_bounds__(threads_of(kCopies), 1)
    hopper_gemm(const __grid_constant__ JobOf<kGrouped> job) {
  constexpr int kBlocksM = kTileM / kBlock, kBlocksN = kTileN / kBlock;
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
    const std::uint32_t loaded =
        (job.a.aligned ? kBlocksM * kBlockBytes : 0) + (job.b.aligned ? kBlocksN * kBlockBytes : 0);
    int turn = 0;
    for (int number = mine; number < works && (kCopies || thread == 0); number += clusters) {
      const Work work(job, number, cluster);
      const int m0 = work.first_m + rank * kTileM, n0 = work.first_n * kTileN;
      const int begin = work.part * job.k_tiles_of_part;
      const int end = min(begin + job.k_tiles_of_part, job.k_tiles);
      for (int tile = begin; tile < end; ++tile, ++turn) {
        if (kProducers > 1 && turn % kProducers != producer) {
          next_stage();
          continue;
        }
        const int k0 = tile * kTileK;
        std::byte* const a = memory + stage * kStageBytes;
        std::byte* const b = a + kBlocksM * kBlockBytes;
        bool waited = false;
        const auto wait_and_load = [&] {
          if (waited) return;
          waited = true;
          barrier_wait(&empty[stage], phase ^ 1);
          if (thread != 0) return;
          barrier_expect(&full[stage], loaded);
          if (job.a.aligned) {
            if (kALines) {
              for (int i = 0; i < kBlocksM; ++i)
                load_box(job.a.map, &full[stage], a + i * kBlockBytes, m0 + i * kBlock, k0, 0);
            } else {
              load_box(job.a.map, &full[stage], a, k0, m0, 0);
            }
          }
          if (job.b.aligned) {
            const std::uint32_t all = (1u << cluster) - 1;
            const auto load_b = [&](std::byte* to, int element, int line) {
              if constexpr (kGrouped) {
                load_box_of(job.b.map, &full[stage], to, element, line, work.matrix, all);
              } else {
                load_box(job.b.map, &full[stage], to, element, line, all);
              }
            };
            if (kBLines) {
              for (int i = rank; i < kBlocksN; i += cluster) load_b(b + i * kBlockBytes, n0 + i * kBlock, k0);
            } else {
              const int part = kTileN / cluster;
              load_b(b + rank * part * kLineBytes, k0, n0 + rank * part);
            }
          }
        };
        if constexpr (kCopies) {
          constexpr int kAhead = 4;
          const bool more = tile + kAhead + 1 < end;  // the last tile may not be whole
          const auto ahead = [&](const Source& of, bool lines) -> std::int64_t {
            return more ? kAhead * (lines ? kTileK * of.pitch : kLineBytes) : 0;
          };
          if (!job.a.aligned)
            copy_blocks<kBlocksM>(job.a, a, thread, kALines ? k0 : m0, kALines ? m0 : k0,
                                  kALines ? 0 : kBlock, kALines ? kBlock : 0, ahead(job.a, kALines),
                                  wait_and_load);
          if (!job.b.aligned)
            copy_blocks<kBlocksN>(job.b, b, thread, kBLines ? k0 : n0, kBLines ? n0 : k0,
                                  kBLines ? 0 : kBlock, kBLines ? kBlock : 0, ahead(job.b, kBLines),
                                  wait_and_load);
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
      const Work work(job, number, cluster);
      const int row0 = work.first_m + rank * kTileM + warp * 16, n0 = work.first_n * kTileN;
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
        store_rows<T, kTileN>(job, stores, sums, row0, work.end_m, n0);
        continue;
      }
      // A thread has columns 8 i + lane % 4 * 2 + {0, 1} of rows lane / 4 + {0, 8}.
      float* const part = job.partial + work.part * job.partial_ld * job.m;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int row = row0 + thread % 32 / 4 + 8 * h;
#pragma unroll
        for (int i = 0; i < kTileN / 8; ++i) {
          const int column = n0 + 8 * i + thread % 4 * 2;
          if (row >= job.m || column >= job.n) continue;
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
