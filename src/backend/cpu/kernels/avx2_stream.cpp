// Dot-product and row-update kernels and packing, avx2.
#define KSCOUT_HWY_TARGET HWY_AVX2
#include "backend/cpu/kernels/stream-inl.h"

namespace kscout::cpu {

void fill_stream_avx2(KernelSet& set) { HWY_NAMESPACE::fill_stream<12>(set); }

}  // namespace kscout::cpu
