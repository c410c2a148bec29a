// Compiles the inner loops of convolutions as scalar code.
#include "backend/cpu/kernels/conv-inl.h"
#include "backend/cpu/kernels/winograd-inl.h"

namespace kscout::cpu {

void fill_conv_scalar(ConvKernelSet& set) {
  HWY_NAMESPACE::fill_conv<NativeIsa::scalar>(set);
  HWY_NAMESPACE::fill_winograd(set);
}

}  // namespace kscout::cpu
