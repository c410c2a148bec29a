// Compiles the outer-product, dot-product and row-update kernels, and packing, for avx2.
#define KSCOUT_HWY_TARGET HWY_AVX2
#include "backend/cpu/kernels/outer-inl.h"
#include "backend/cpu/kernels/stream-inl.h"

namespace kscout::cpu {

void fill_outer_avx2(KernelSet& set) { HWY_NAMESPACE::fill_outer<NativeIsa::avx2>(set); }

void fill_stream_avx2(KernelSet& set) { HWY_NAMESPACE::fill_stream<NativeIsa::avx2>(set); }

}  // namespace kscout::cpu
