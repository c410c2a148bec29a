// A call of a SlicedForest, one 64-bit word at a time; and which instruction set to take.
#include "core/device_facts.h"
#include "forest/sliced_call-inl.h"

namespace kscout {

const SlicedKernels kSlicedScalar = {"scalar", HWY_NAMESPACE::kLanes, false, HWY_NAMESPACE::top_rows,
                                     HWY_NAMESPACE::score_rows};

const SlicedKernels& best_sliced_kernels() noexcept {
#if defined(__x86_64__)
  const InstructionSet best = best_instruction_set();
  if (best == InstructionSet::avx512_dl) return kSlicedAvx512Dl;
  if (best == InstructionSet::avx512) return kSlicedAvx512;
  if (best == InstructionSet::avx2) return kSlicedAvx2;
#endif
  return kSlicedScalar;
}

}  // namespace kscout
