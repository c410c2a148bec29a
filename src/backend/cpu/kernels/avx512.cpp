// Compiles the outer-product, dot-product and row-update kernels, and packing, for avx512.
#define KSCOUT_HWY_TARGET HWY_AVX3
#include "backend/cpu/kernels/outer-inl.h"
#include "backend/cpu/kernels/stream-inl.h"

namespace kscout::cpu {

void fill_outer_avx512(KernelSet& set) {
  HWY_NAMESPACE::fill_outer_rows<16, 1>(set);
  HWY_NAMESPACE::fill_outer_rows<14, 2>(set);
  HWY_NAMESPACE::fill_outer_rows<9, 3>(set);
  HWY_NAMESPACE::fill_outer_rows<6, 4>(set);
}

void fill_stream_avx512(KernelSet& set) { HWY_NAMESPACE::fill_stream<24>(set); }

}  // namespace kscout::cpu
