// A call of a SlicedForest, avx512 of Ice Lake, Zen 4 and later.
#define HWY_WANT_AVX3_DL
#define KSCOUT_HWY_TARGET HWY_AVX3_DL
#include "forest/sliced_call-inl.h"

namespace kscout {
const SlicedKernels kSlicedAvx512Dl = {"avx512_dl", HWY_NAMESPACE::kLanes, true, HWY_NAMESPACE::top_rows,
                                       HWY_NAMESPACE::score_rows};
}
