#pragma once
/// \file
/// Wraps the instructions of sm_90a that the kernels of hopper_tile.cuh use: barriers, loads by the tensor
/// memory accelerator, wgmma.
#include <cstddef>
#include <cstdint>

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

}  // namespace

}  // namespace kscout::cuda
