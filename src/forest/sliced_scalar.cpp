// A call of a SlicedForest, one 64-bit word at a time; and which instruction set to take.
#define HWY_COMPILE_ONLY_SCALAR
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "core/instruction_set.h"
#include "forest/sliced_call-inl.h"

namespace kscout {

const SlicedKernels kSlicedScalar = {"scalar", HWY_NAMESPACE::kLanes, HWY_NAMESPACE::top_rows,
                                     HWY_NAMESPACE::score_rows};

const SlicedKernels& best_sliced_kernels() noexcept {
#if defined(__x86_64__)
  if (best_instruction_set() == InstructionSet::avx512) return kSlicedAvx512;
  if (best_instruction_set() == InstructionSet::avx2) return kSlicedAvx2;
#endif
  return kSlicedScalar;
}

}  // namespace kscout
