// Compiles the inner loops of convolutions for avx2.
#define KSCOUT_HWY_TARGET HWY_AVX2
#include "backend/cpu/kernels/conv-inl.h"
#include "backend/cpu/kernels/winograd-inl.h"

namespace kscout::cpu {

void fill_conv_avx2(ConvKernelSet& set) {
  HWY_NAMESPACE::fill_conv<NativeIsa::avx2>(set);
  HWY_NAMESPACE::fill_winograd(set);
}

}  // namespace kscout::cpu
