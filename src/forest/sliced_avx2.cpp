// Bit-sliced sums, avx2.
#define KSCOUT_HWY_TARGET HWY_AVX2
#include "backend/cpu/kernels/isa-inl.h"
#include "forest/sliced-inl.h"

namespace kscout {
const SlicedKernels kSlicedAvx2 = {"avx2", HWY_NAMESPACE::kLanes, HWY_NAMESPACE::add_trees};
}
