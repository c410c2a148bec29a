// Dot-product and row-update kernels and packing, scalar.
#include "backend/cpu/kernels/stream-inl.h"

namespace kscout::cpu {

void fill_stream_scalar(KernelSet& set) { HWY_NAMESPACE::fill_stream<12>(set); }

}  // namespace kscout::cpu
