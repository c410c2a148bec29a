// Compiles the outer-product, dot-product and row-update kernels, and packing, as scalar code.
#include "backend/cpu/kernels/outer-inl.h"
#include "backend/cpu/kernels/stream-inl.h"

namespace kscout::cpu {

void fill_outer_scalar(KernelSet& set) {
  HWY_NAMESPACE::fill_outer_rows<12, 1>(set);
  HWY_NAMESPACE::fill_outer_rows<6, 2>(set);
  HWY_NAMESPACE::fill_outer_rows<4, 3>(set);
  HWY_NAMESPACE::fill_outer_rows<3, 4>(set);
}

void fill_stream_scalar(KernelSet& set) { HWY_NAMESPACE::fill_stream<12>(set); }

}  // namespace kscout::cpu
