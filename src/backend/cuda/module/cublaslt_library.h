#pragma once
/// \file
/// cuBLASLt, loaded when it is first used: the module runs with whatever release of its major version is
/// there.
#include <cstddef>

#include <cublasLt.h>

#include "backend/cuda/module/checks.h"

namespace kscout::cuda {

// clang-format off
#define KSCOUT_CUBLASLT_FUNCTIONS(F)                                                                          \
  F(Create) F(Matmul) F(MatmulAlgoCapGetAttribute) F(MatmulAlgoCheck) F(MatmulAlgoConfigGetAttribute)         \
  F(MatmulAlgoConfigSetAttribute) F(MatmulAlgoGetHeuristic) F(MatmulAlgoGetIds) F(MatmulAlgoInit)             \
  F(MatmulDescCreate) F(MatmulDescDestroy) F(MatmulDescSetAttribute) F(MatmulPreferenceCreate)                \
  F(MatmulPreferenceDestroy) F(MatmulPreferenceSetAttribute) F(MatrixLayoutCreate) F(MatrixLayoutDestroy)     \
  F(MatrixLayoutSetAttribute) F(GetVersion) F(GetStatusString)
// clang-format on

struct CublasLt {
#define KSCOUT_MEMBER(name) decltype(&cublasLt##name) name;
  KSCOUT_CUBLASLT_FUNCTIONS(KSCOUT_MEMBER)
#undef KSCOUT_MEMBER
};

/// Null when it cannot be loaded: error_text() says why. KSCOUT_CUBLASLT names a file; else the usual name of
/// the major version that the module was built for, then the toolkit's folder.
const CublasLt* cublaslt();

}  // namespace kscout::cuda
