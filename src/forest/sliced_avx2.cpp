// A call of a SlicedForest, avx2.
#define KSCOUT_HWY_TARGET HWY_AVX2
#include "forest/sliced_call-inl.h"

namespace kscout {
const SlicedKernels kSlicedAvx2 = {"avx2", HWY_NAMESPACE::kLanes, false, HWY_NAMESPACE::top_rows,
                                   HWY_NAMESPACE::score_rows};
}
