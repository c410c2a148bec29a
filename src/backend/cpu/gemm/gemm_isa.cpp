// Compiles the outer-product, dot-product and row-update kernels, packing and epilogues for the instruction
// set that KSCOUT_ISA names.
#include "backend/cpu/gemm/epilogue-inl.h"
#include "backend/cpu/gemm/outer-inl.h"
#include "backend/cpu/gemm/stream-inl.h"

namespace kscout::cpu {

template <>
void fill<GemmKernels, NativeIsa::KSCOUT_ISA>(GemmKernels& kernels) {
  HWY_NAMESPACE::fill_outer<NativeIsa::KSCOUT_ISA>(kernels);
  HWY_NAMESPACE::fill_stream<NativeIsa::KSCOUT_ISA>(kernels);
  HWY_NAMESPACE::fill_epilogues(kernels);
}

}  // namespace kscout::cpu
