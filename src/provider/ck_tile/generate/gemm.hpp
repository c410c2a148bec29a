#pragma once
// Wraps a GEMM kernel of CK Tile in the C ABI of kscout's kernel libraries.
#include "common.hpp"

namespace kscout_ck {

/// Config: types A, B, C, Acc and ALayout, BLayout, CLayout; tile_*, warp_*, warp_tile_*; pad_*, persistent,
/// double_buffer, cshuffle, blocks_per_cu, split_k_axis, scheduler; template Pipeline.
template <class Config>
struct Gemm : Entry<Gemm<Config>> {
  using Shape = ck_tile::TileGemmShape<
      ck_tile::sequence<Config::tile_m, Config::tile_n, Config::tile_k>,
      ck_tile::sequence<Config::warp_m, Config::warp_n, Config::warp_k>,
      ck_tile::sequence<Config::warp_tile_m, Config::warp_tile_n, Config::warp_tile_k>>;
  using Partitioner = ck_tile::GemmSpatiallyLocalTilePartitioner<Shape, 8, 4>;
  using Traits = ck_tile::TileGemmUniversalTraits<Config::pad_m, Config::pad_n, Config::pad_k,
                                                  Config::double_buffer, typename Config::ALayout,
                                                  typename Config::BLayout, typename Config::CLayout, false,
                                                  false, Config::persistent, 1, Config::preshuffle>;
  using Problem = PipelineProblem<typename Config::A, typename Config::B, typename Config::Acc, Shape, Traits,
                                  Config::scheduler>;
  using Pipeline = typename Config::template Pipeline<Problem>;
  template <Store store>
  using Epilogue =
      std::conditional_t<Config::cshuffle,
                         ShuffledStore<store, typename Config::A, typename Config::B, typename Config::Acc,
                                       typename Config::C, ck_tile::tuple<>, Config, false>,
                         PlainStore<store, typename Config::A, typename Config::B, typename Config::Acc,
                                    typename Config::C, Config>>;
  template <Store store>
  using KernelThat = ck_tile::GemmKernel<Partitioner, Pipeline, Epilogue<store>>;
  using Kernel = KernelThat<Store::over>;

  static index_t split_k(const kscout_kernel_shape& shape) { return shape.axes[Config::split_k_axis]; }

  static auto host_args(const kscout_kernel_shape& s, const void* a, const void* b, void* c) {
    return ck_tile::GemmHostArgs{a,
                                 b,
                                 c,
                                 split_k(s),
                                 static_cast<index_t>(s.m),
                                 static_cast<index_t>(s.n),
                                 static_cast<index_t>(s.k),
                                 static_cast<index_t>(s.lda),
                                 static_cast<index_t>(s.ldb),
                                 static_cast<index_t>(s.ldc)};
  }

  static const char* refusal(const kscout_kernel_shape& shape) {
    if (shape.batch != 1) return "one product at a time";
    const bool takes =
        Kernel::IsSupportedArgument(Kernel::MakeKernelArgs(host_args(shape, nullptr, nullptr, nullptr)));
    return takes ? nullptr : "the kernel does not take these sizes";
  }

  static std::uint64_t workspace_of(const kscout_kernel_shape&) { return 0; }

  static const char* start(const kscout_kernel_shape& shape, const kscout_kernel_call& call) {
    const auto args = Kernel::MakeKernelArgs(host_args(shape, call.a, call.b, call.c));
    if (split_k(shape) <= 1) {
      launch<Kernel>(shape, args, call.stream);
      return nullptr;
    }
    if (!zero(call.c, sizeof(typename Config::C) * shape.m * shape.ldc, call.stream))
      return "C cannot be set to 0 before its parts are added";
    launch<KernelThat<Store::add>>(shape, args, call.stream);
    return nullptr;
  }

 private:
  template <class K, class Args>
  static void launch(const kscout_kernel_shape& s, const Args& args, void* stream) {
    const dim3 grid = Config::persistent
                          ? K::MaxOccupancyGridSize(launch_on(stream))
                          : K::GridSize(static_cast<index_t>(s.m), static_cast<index_t>(s.n), split_k(s));
    ck_tile::launch_kernel(launch_on(stream),
                           ck_tile::make_kernel<Config::blocks_per_cu>(K{}, grid, K::BlockSize(), 0, args));
  }
};

}  // namespace kscout_ck
