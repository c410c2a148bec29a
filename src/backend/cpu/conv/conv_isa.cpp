// Compiles the inner loops of convolutions for the instruction set that KSCOUT_ISA names.
#include "backend/cpu/conv/conv-inl.h"
#include "backend/cpu/conv/winograd-inl.h"

namespace kscout::cpu {

template <>
void fill<ConvKernels, NativeIsa::KSCOUT_ISA>(ConvKernels& kernels) {
  HWY_NAMESPACE::fill_conv<NativeIsa::KSCOUT_ISA>(kernels);
  HWY_NAMESPACE::fill_winograd(kernels);
}

}  // namespace kscout::cpu
