#pragma once
// Wraps a GEMM of CUTLASS 2 (cp.async, mma.sync, several stages) in the C ABI of kscout's kernel libraries.
#include <type_traits>

#include "common.hpp"
#include "cutlass/epilogue/thread/linear_combination.h"
#include "cutlass/gemm/device/gemm_universal.h"
#include "cutlass/gemm/threadblock/threadblock_swizzle_streamk.h"

namespace kscout_cutlass {

/// Config: types A, B, C, Acc; LayoutA, LayoutB, LayoutC (row-major); tile_*, warp_m, warp_n, stages,
/// align_ab, align_c (elements); reads_c, stream_k; positions of the launch axes decomposition_axis,
/// split_k_axis.
template <class Config>
struct Mma80 {
  using Swizzle = std::conditional_t<Config::stream_k, cutlass::gemm::threadblock::ThreadblockSwizzleStreamK,
                                     cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<8>>;
  using Gemm = cutlass::gemm::device::GemmUniversal<
      typename Config::A, typename Config::LayoutA, typename Config::B, typename Config::LayoutB,
      typename Config::C, typename Config::LayoutC, typename Config::Acc, cutlass::arch::OpClassTensorOp,
      cutlass::arch::Sm80, cutlass::gemm::GemmShape<Config::tile_m, Config::tile_n, Config::tile_k>,
      cutlass::gemm::GemmShape<Config::warp_m, Config::warp_n, Config::tile_k>,
      cutlass::gemm::GemmShape<16, 8, 16>,
      cutlass::epilogue::thread::LinearCombination<typename Config::C, Config::align_c, typename Config::Acc,
                                                   typename Config::Acc>,
      Swizzle, Config::stages, Config::align_ab, Config::align_ab>;

  static typename Gemm::Arguments arguments(const kscout_kernel_shape& s, const kscout_kernel_call& call) {
    using Mode = cutlass::gemm::GemmUniversalMode;
    const Mode mode = s.batch > 1 ? Mode::kBatched : Mode::kGemm;
    typename Gemm::Arguments args{
        mode,
        {static_cast<int>(s.m), static_cast<int>(s.n), static_cast<int>(s.k)},
        s.batch > 1 ? static_cast<int>(s.batch) : 1,
        {static_cast<typename Config::Acc>(call.alpha), static_cast<typename Config::Acc>(call.beta)},
        call.a,
        call.b,
        call.c,
        call.c,
        s.stride_a,
        s.stride_b,
        s.stride_c,
        s.stride_c,
        s.lda,
        s.ldb,
        s.ldc,
        s.ldc};
    if constexpr (Config::stream_k) {
      const Decomposition decomposition = static_cast<Decomposition>(s.axes[Config::decomposition_axis]);
      if (decomposition == Decomposition::split_k) args.batch_count = s.axes[Config::split_k_axis];
      if (decomposition == Decomposition::none) args.avail_sms = 1;  // makes CUTLASS share no tile
    }
    return args;
  }

  /// Checks the distances between rows and between matrices: CUTLASS 2 itself checks the sizes only.
  static bool aligned(const kscout_kernel_shape& s) {
    const std::int64_t batches = s.batch > 1 ? s.stride_a | s.stride_b : 0;
    return (s.lda | s.ldb | batches) % Config::align_ab == 0 &&
           (s.ldc | (s.batch > 1 ? s.stride_c : 0)) % Config::align_c == 0;
  }

  static std::int32_t workspace_bytes(const kscout_kernel*, const kscout_kernel_shape* shape,
                                      std::uint64_t* bytes, kscout_kernel_message message) {
    *bytes = 0;
    if (const std::int32_t status = check_shape(*shape, message); status != KSCOUT_KERNEL_OK) return status;
    if (Config::stream_k && shape->batch > 1)
      return refuse(message, KSCOUT_KERNEL_UNSUPPORTED, "K is split for one product at a time");
    if (!aligned(*shape))
      return refuse(message, KSCOUT_KERNEL_UNSUPPORTED,
                    "rows do not start at multiples of the kernel's loads");
    const auto args = arguments(*shape, kscout_kernel_call{});
    return ask_workspace<Gemm>(args, bytes, message);
  }

  static std::int32_t run(const kscout_kernel*, const kscout_kernel_shape* shape,
                          const kscout_kernel_call* call, kscout_kernel_message message) {
    if (const std::int32_t status = check_call(*call, Config::reads_c, message); status != KSCOUT_KERNEL_OK)
      return status;
    return launch<Gemm>(arguments(*shape, *call), *call, message);
  }
};

}  // namespace kscout_cutlass
