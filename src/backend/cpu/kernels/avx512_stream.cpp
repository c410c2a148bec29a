// Dot-product and row-update kernels and packing, avx512.
#define KSCOUT_HWY_TARGET HWY_AVX3
#include "backend/cpu/kernels/stream-inl.h"

namespace kscout::cpu {

void fill_stream_avx512(KernelSet& set) { HWY_NAMESPACE::fill_stream<24>(set); }

}  // namespace kscout::cpu
