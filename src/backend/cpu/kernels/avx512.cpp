// Compiles the outer-product, dot-product and row-update kernels, and packing, for avx512.
#define KSCOUT_HWY_TARGET HWY_AVX3
#include "backend/cpu/kernels/outer-inl.h"
#include "backend/cpu/kernels/stream-inl.h"

namespace kscout::cpu {

void fill_outer_avx512(KernelSet& set) { HWY_NAMESPACE::fill_outer<NativeIsa::avx512>(set); }

void fill_stream_avx512(KernelSet& set) { HWY_NAMESPACE::fill_stream<NativeIsa::avx512>(set); }

}  // namespace kscout::cpu
