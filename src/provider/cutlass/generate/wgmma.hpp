#pragma once
// Wraps a GEMM of CUTLASS 3 for sm_90a (TMA, warp-specialised, wgmma) in the C ABI of kscout's kernel
// libraries.
#include "common.hpp"
#include "cute/tensor.hpp"
#include "cutlass/epilogue/collective/collective_builder.hpp"
#include "cutlass/epilogue/fusion/operations.hpp"
#include "cutlass/epilogue/thread/activation.h"
#include "cutlass/gemm/collective/collective_builder.hpp"
#include "cutlass/gemm/device/gemm_universal_adapter.h"
#include "cutlass/gemm/kernel/gemm_universal.hpp"
#include "cutlass/gemm/kernel/tile_scheduler.hpp"

namespace kscout_cutlass {

/// What CUTLASS's epilogue computes of the accumulators, for a Config of Wgmma. A bias has one value per
/// column of C, which is a row of the transposed C. Its alignment is that of an element, as the C ABI says.
template <class Config>
struct Fused {
  using C = typename Config::C;
  using Acc = typename Config::Acc;
  /// Without a source C, the epilogue does not load it.
  using Source = cute::conditional_t<Config::reads_c, C, void>;
  static constexpr auto kActivation = static_cast<Activation>(Config::activation);
  static constexpr bool kActivates = kActivation != Activation::none;
  /// GELU in its tanh form.
  template <class T>
  using Function = cute::conditional_t<kActivation == Activation::relu, cutlass::epilogue::thread::ReLu<T>,
                                       cutlass::epilogue::thread::GELU_taylor<T>>;

  using Plain = cutlass::epilogue::fusion::LinearCombination<C, Acc, Source, Acc>;
  using Activated = cutlass::epilogue::fusion::LinCombEltAct<Function, C, Acc, Source, Acc>;
  using Biased = cute::conditional_t<Config::swap_ab,
                                     cutlass::epilogue::fusion::LinCombPerRowBias<C, Acc, C, Source, Acc, 1>,
                                     cutlass::epilogue::fusion::LinCombPerColBias<C, Acc, C, Source, Acc, 1>>;
  using BiasedActivated = cute::conditional_t<
      Config::swap_ab,
      cutlass::epilogue::fusion::LinCombPerRowBiasEltAct<Function, C, Acc, C, Source, Acc, 1>,
      cutlass::epilogue::fusion::LinCombPerColBiasEltAct<Function, C, Acc, C, Source, Acc, 1>>;
  using Operation =
      cute::conditional_t<Config::has_bias, cute::conditional_t<kActivates, BiasedActivated, Biased>,
                          cute::conditional_t<kActivates, Activated, Plain>>;
};

/// Config, in terms of the kernel's product (with swap_ab it computes C transposed: A and B, rows and columns
/// are exchanged): types A, B, C, Acc; LayoutA, LayoutB, LayoutC; Schedule, Epilogue, Scheduler; tile_*,
/// cluster_*, stages (0: as many as fit), align_ab, align_c (elements); reads_c, swap_ab, stream_k, has_bias,
/// activation; positions of the launch axes raster_axis, swizzle_axis, decomposition_axis, split_k_axis.
template <class Config>
struct Wgmma {
  using Tile = cute::Shape<cute::Int<Config::tile_m>, cute::Int<Config::tile_n>, cute::Int<Config::tile_k>>;
  using Cluster = cute::Shape<cute::Int<Config::cluster_m>, cute::Int<Config::cluster_n>, cute::_1>;
  using Fusion = Fused<Config>;
  using Store = typename cutlass::epilogue::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Tile, Cluster,
      cutlass::epilogue::collective::EpilogueTileAuto, typename Config::Acc, typename Config::Acc,
      typename Fusion::Source, typename Config::LayoutC, Config::align_c, typename Config::C,
      typename Config::LayoutC, Config::align_c, typename Config::Epilogue,
      typename Fusion::Operation>::CollectiveOp;
  using Stages = cute::conditional_t<Config::stages == 0,
                                     cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(
                                         sizeof(typename Store::SharedStorage))>,
                                     cutlass::gemm::collective::StageCount<Config::stages>>;
  using Product = typename cutlass::gemm::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, typename Config::A, typename Config::LayoutA,
      Config::align_ab, typename Config::B, typename Config::LayoutB, Config::align_ab, typename Config::Acc,
      Tile, Cluster, Stages, typename Config::Schedule>::CollectiveOp;
  using Kernel = cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int, int>, Product, Store,
                                                      typename Config::Scheduler>;
  using Gemm = cutlass::gemm::device::GemmUniversalAdapter<Kernel>;
  using Arguments = typename Gemm::Arguments;

  /// CuTe's stride of a matrix: the unit stride is static, the other two are arguments.
  template <class Stride>
  static Stride stride(std::int64_t leading, std::int64_t batch) {
    Stride made{};
    if constexpr (cute::is_static<cute::remove_cvref_t<decltype(cute::get<0>(made))>>::value) {
      cute::get<1>(made) = leading;
    } else {
      cute::get<0>(made) = leading;
    }
    cute::get<2>(made) = batch;
    return made;
  }

  static Arguments arguments(const kscout_kernel_shape& s, const kscout_kernel_call& call) {
    constexpr bool kSwap = Config::swap_ab;
    const std::int64_t batch_a = s.batch > 1 ? s.stride_a : 0, batch_b = s.batch > 1 ? s.stride_b : 0;
    const std::int64_t batch_c = s.batch > 1 ? s.stride_c : 0;
    Arguments args{};
    args.mode = cutlass::gemm::GemmUniversalMode::kGemm;
    args.problem_shape = {static_cast<int>(kSwap ? s.n : s.m), static_cast<int>(kSwap ? s.m : s.n),
                          static_cast<int>(s.k), static_cast<int>(s.batch)};
    args.mainloop.ptr_A = static_cast<const typename Config::A*>(kSwap ? call.b : call.a);
    args.mainloop.ptr_B = static_cast<const typename Config::B*>(kSwap ? call.a : call.b);
    args.mainloop.dA = stride<typename Kernel::StrideA>(kSwap ? s.ldb : s.lda, kSwap ? batch_b : batch_a);
    args.mainloop.dB = stride<typename Kernel::StrideB>(kSwap ? s.lda : s.ldb, kSwap ? batch_a : batch_b);
    args.epilogue.thread.alpha = static_cast<typename Config::Acc>(call.alpha);
    args.epilogue.thread.beta = static_cast<typename Config::Acc>(call.beta);
    if constexpr (Config::has_bias)
      args.epilogue.thread.bias_ptr = static_cast<const typename Config::C*>(call.bias);
    if constexpr (Config::reads_c) {
      args.epilogue.ptr_C = static_cast<const typename Config::C*>(call.c);
      args.epilogue.dC = stride<typename Kernel::StrideC>(s.ldc, batch_c);
    }
    args.epilogue.ptr_D = static_cast<typename Config::C*>(call.c);
    args.epilogue.dD = stride<typename Kernel::StrideD>(s.ldc, batch_c);
    args.hw_info.sm_count = multiprocessors();
    schedule(s, args.scheduler);
    return args;
  }

  template <class Scheduler>
  static void schedule(const kscout_kernel_shape& s, Scheduler& to) {
    using Raster = decltype(to.raster_order);
    // The axis refers to the rows of C, which are the kernel's columns when it computes C transposed.
    const bool along_m = (s.axes[Config::raster_axis] == 0) != Config::swap_ab;
    to.raster_order = along_m ? Raster::AlongM : Raster::AlongN;
    to.max_swizzle_size = s.axes[Config::swizzle_axis];
    if constexpr (Config::stream_k) {
      using Mode = decltype(to.decomposition_mode);
      const Decomposition decomposition = static_cast<Decomposition>(s.axes[Config::decomposition_axis]);
      to.decomposition_mode = decomposition == Decomposition::none      ? Mode::DataParallel
                              : decomposition == Decomposition::split_k ? Mode::SplitK
                                                                        : Mode::StreamK;
      to.splits = decomposition == Decomposition::split_k ? s.axes[Config::split_k_axis] : 1;
    }
  }

  static std::int32_t workspace_bytes(const kscout_kernel*, const kscout_kernel_shape* shape,
                                      std::uint64_t* bytes, kscout_kernel_message message) {
    *bytes = 0;
    if (const std::int32_t status = check_shape(*shape, message); status != KSCOUT_KERNEL_OK) return status;
    const Arguments args = arguments(*shape, kscout_kernel_call{});
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
