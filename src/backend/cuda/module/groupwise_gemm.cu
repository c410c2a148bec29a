#include "backend/cuda/module/groupwise_conv.h"
#include "backend/cuda/module/groupwise_gather.cuh"
#include "backend/cuda/module/groupwise_weight.cuh"

namespace kscout::cuda {

namespace {

template <int kM, int kN, int kWarpM, int kWarpN, bool kAByK, bool kBByK>
constexpr int tile_bytes(int vector) {
  using Tile = WarpTile<kM, kN, kWarpM, kWarpN, kAByK, kBByK>;
  return stages_of(vector) * (Tile::kElementsA + Tile::kElementsB) * static_cast<int>(sizeof(Element));
}

template <int kM, int kN, int kWarpM, int kWarpN, int kV>
ConvKernel<GemmJob> kernel_of(Direction direction) {
  ConvKernel<GemmJob> kernel{.threads = threads_of<kM, kN, kWarpM, kWarpN>()};
  constexpr int kPlaces = static_cast<int>(sizeof(Place));
  switch (direction) {
    case Direction::forward:
      kernel.function = gather_gemm<false, kM, kN, kWarpM, kWarpN, kV>;
      kernel.shared_bytes = tile_bytes<kM, kN, kWarpM, kWarpN, false, false>(kV) + kM * (kPlaces + 4);
      break;
    case Direction::backward_data:
      kernel.function = gather_gemm<true, kM, kN, kWarpM, kWarpN, kV>;
      kernel.shared_bytes = tile_bytes<kM, kN, kWarpM, kWarpN, false, true>(kV) + kM * (kPlaces + 4);
      break;
    case Direction::backward_weight:
      kernel.function = weight_gemm<kM, kN, kWarpM, kWarpN, kV>;
      kernel.shared_bytes =
          tile_bytes<kM, kN, kWarpM, kWarpN, true, true>(kV) + (stages_of(kV) + 1) * kTileK * kPlaces;
      break;
  }
  return kernel;
}

template <int kM, int kN, int kWarpM, int kWarpN>
ConvKernel<GemmJob> kernel_of(Direction direction, int vector) {
  const auto of = [&]<int kV>() { return kernel_of<kM, kN, kWarpM, kWarpN, kV>(direction); };
  switch (vector) {
    case 8:
      return of.template operator()<8>();
    case 2:
      return of.template operator()<2>();
    default:
      return of.template operator()<1>();
  }
}

}  // namespace

ConvKernel<GemmJob> groupwise_gemm(Direction direction, int tile_m, int tile_n, int vector) {
  const auto is = [&](int m, int n) { return tile_m == m && tile_n == n; };
  if (is(128, 128)) return kernel_of<128, 128, 64, 32>(direction, vector);
  if (is(128, 64)) return kernel_of<128, 64, 32, 32>(direction, vector);
  if (is(64, 64)) return kernel_of<64, 64, 32, 32>(direction, vector);
  if (is(128, 32)) return kernel_of<128, 32, 32, 32>(direction, vector);
  if (is(64, 32)) return kernel_of<64, 32, 32, 16>(direction, vector);
  if (is(128, 16)) return kernel_of<128, 16, 32, 16>(direction, vector);
  return {};
}

}  // namespace kscout::cuda
