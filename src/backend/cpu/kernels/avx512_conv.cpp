// Compiles the inner loops of convolutions for avx512.
#define KSCOUT_HWY_TARGET HWY_AVX3
#include "backend/cpu/kernels/conv-inl.h"
#include "backend/cpu/kernels/winograd-inl.h"

namespace kscout::cpu {

void fill_conv_avx512(ConvKernelSet& set) {
  HWY_NAMESPACE::fill_conv<NativeIsa::avx512>(set);
  HWY_NAMESPACE::fill_winograd(set);
}

}  // namespace kscout::cpu
