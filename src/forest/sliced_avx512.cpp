// A call of a SlicedForest, avx512.
#define KSCOUT_HWY_TARGET HWY_AVX3
#include "forest/sliced_call-inl.h"

namespace kscout {
const SlicedKernels kSlicedAvx512 = {"avx512", HWY_NAMESPACE::kLanes, false, HWY_NAMESPACE::top_rows,
                                     HWY_NAMESPACE::score_rows};
}
