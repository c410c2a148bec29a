#pragma once
/// \file
/// Lists the instruction sets that inner loops are compiled for. src/CMakeLists.txt compiles the sources
/// gemm_isa.cpp and conv_isa.cpp once for each; each of them defines fill() for its instruction set.
///
///     const GemmKernels* kernels = kernels_of<GemmKernels>(NativeIsa::avx2);
#include "provider/native/native.h"

namespace kscout::cpu {

template <class Kernels, NativeIsa isa>
void fill(Kernels& kernels);

template <class Kernels, NativeIsa isa>
const Kernels& filled() noexcept {
  static const Kernels kernels = [] {
    Kernels all;
    fill<Kernels, isa>(all);
    return all;
  }();
  return kernels;
}

/// The functions of an instruction set; null when it is not compiled for this architecture. The caller must
/// check that the machine supports it.
template <class Kernels>
const Kernels* kernels_of(NativeIsa isa) noexcept {
  // fill() is compiled for its instruction set too, so it runs only for a requested set.
  switch (isa) {
    case NativeIsa::scalar:
      return &filled<Kernels, NativeIsa::scalar>();
#if defined(__x86_64__)
    case NativeIsa::avx2:
      return &filled<Kernels, NativeIsa::avx2>();
    case NativeIsa::avx512:
      return &filled<Kernels, NativeIsa::avx512>();
#endif
    default:
      return nullptr;
  }
}

}  // namespace kscout::cpu
