// Compiles the outer-product, dot-product and row-update kernels, and packing, as scalar code.
#include "backend/cpu/kernels/outer-inl.h"
#include "backend/cpu/kernels/stream-inl.h"

namespace kscout::cpu {

void fill_outer_scalar(KernelSet& set) { HWY_NAMESPACE::fill_outer<NativeIsa::scalar>(set); }

void fill_stream_scalar(KernelSet& set) { HWY_NAMESPACE::fill_stream<NativeIsa::scalar>(set); }

}  // namespace kscout::cpu
