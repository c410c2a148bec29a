// Dot-product and row-update kernels and packing, scalar.
#define HWY_COMPILE_ONLY_SCALAR  // one lane; EMU128 is miscompiled by GCC 12 (its bug 106322)
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "backend/cpu/kernels/stream-inl.h"

namespace kscout::cpu {

void fill_stream_scalar(KernelSet& set) { HWY_NAMESPACE::fill_stream<12>(set); }

}  // namespace kscout::cpu
