// Outer-product kernels, avx2.
#define KSCOUT_HWY_TARGET HWY_AVX2
#include "backend/cpu/kernels/outer-inl.h"

namespace kscout::cpu {

void fill_outer_avx2(KernelSet& set) {
  HWY_NAMESPACE::fill_outer_rows<12, 1>(set);
  HWY_NAMESPACE::fill_outer_rows<6, 2>(set);
  HWY_NAMESPACE::fill_outer_rows<4, 3>(set);
  HWY_NAMESPACE::fill_outer_rows<3, 4>(set);
}

}  // namespace kscout::cpu
