// Compiles the outer-product, dot-product and row-update kernels, and packing, for avx2.
#define KSCOUT_HWY_TARGET HWY_AVX2
#include "backend/cpu/kernels/outer-inl.h"
#include "backend/cpu/kernels/stream-inl.h"

namespace kscout::cpu {

void fill_outer_avx2(KernelSet& set) {
  HWY_NAMESPACE::fill_outer_rows<12, 1>(set);
  HWY_NAMESPACE::fill_outer_rows<6, 2>(set);
  HWY_NAMESPACE::fill_outer_rows<4, 3>(set);
  HWY_NAMESPACE::fill_outer_rows<3, 4>(set);
}

void fill_stream_avx2(KernelSet& set) { HWY_NAMESPACE::fill_stream<12>(set); }

}  // namespace kscout::cpu
