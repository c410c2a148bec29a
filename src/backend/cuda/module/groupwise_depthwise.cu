#include "backend/cuda/module/groupwise_conv.h"
#include "backend/cuda/module/groupwise_depthwise.cuh"

namespace kscout::cuda {

namespace {

template <int kV, int kP, int kT, int kStep>
ConvKernel<DepthwiseJob> kernel_of(Direction direction, bool bf16) {
  ConvKernel<DepthwiseJob> kernel{.threads = kDepthwiseThreads};
  if (direction == Direction::backward_weight) {
    kernel.function =
        bf16 ? depthwise_weight<kV, kP, kT, kStep, true> : depthwise_weight<kV, kP, kT, kStep, false>;
  } else {
    kernel.function =
        bf16 ? depthwise_gather<kV, kP, kT, kStep, true> : depthwise_gather<kV, kP, kT, kStep, false>;
  }
  return kernel;
}

template <int kV, int kP>
ConvKernel<DepthwiseJob> kernel_of(Direction direction, int taps, int stride, bool bf16) {
  if (taps == 0) return kernel_of<kV, kP, 0, 0>(direction, bf16);
  if constexpr (kV > 1) {
    const auto of = [&]<int kT>() {
      return stride == 1   ? kernel_of<kV, kP, kT, 1>(direction, bf16)
             : stride == 2 ? kernel_of<kV, kP, kT, 2>(direction, bf16)
                           : ConvKernel<DepthwiseJob>{};
    };
    switch (taps) {
      case 3:
        return of.template operator()<3>();
      case 5:
        return of.template operator()<5>();
      case 7:
        return of.template operator()<7>();
      default:
        break;
    }
  }
  return {};
}

}  // namespace

ConvKernel<DepthwiseJob> groupwise_depthwise(Direction direction, int vector, int pixels, int taps,
                                             int stride, bool bf16) {
  const auto is = [&](int v, int p) { return vector == v && pixels == p; };
  if (is(8, 4)) return kernel_of<8, 4>(direction, taps, stride, bf16);
  if (is(4, 4)) return kernel_of<4, 4>(direction, taps, stride, bf16);
  if (is(4, 8)) return kernel_of<4, 8>(direction, taps, stride, bf16);
  if (is(2, 8)) return kernel_of<2, 8>(direction, taps, stride, bf16);
  if (is(2, 4)) return kernel_of<2, 4>(direction, taps, stride, bf16);
  if (is(1, 4)) return kernel_of<1, 4>(direction, taps, stride, bf16);
  return {};
}

}  // namespace kscout::cuda
