#include "backend/cpu/kernels/kernels.h"

namespace kscout::cpu {

namespace {

using Fill = void (*)(KernelSet&);

KernelSet filled(Fill outer, Fill stream) {
  KernelSet set;
  outer(set);
  stream(set);
  return set;
}

}  // namespace

const KernelSet* kernel_set(NativeIsa isa) noexcept {
  // Fillers are compiled for their instruction set too, so each runs only when its set is asked for.
  switch (isa) {
    case NativeIsa::scalar: {
      static const KernelSet set = filled(fill_outer_scalar, fill_stream_scalar);
      return &set;
    }
#if defined(__x86_64__)
    case NativeIsa::avx2: {
      static const KernelSet set = filled(fill_outer_avx2, fill_stream_avx2);
      return &set;
    }
    case NativeIsa::avx512: {
      static const KernelSet set = filled(fill_outer_avx512, fill_stream_avx512);
      return &set;
    }
#endif
    default:
      return nullptr;
  }
}

}  // namespace kscout::cpu
