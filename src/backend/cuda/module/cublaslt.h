#pragma once
/// \file
/// Prepares and suggests cuBLASLt's algorithms.
///
/// The library's matrices are column-major. It receives the problem's matrices unchanged and computes the
/// transposed product C^T = B^T A^T. The library's rows are therefore the problem's columns, and its bias
/// along rows is the problem's bias along columns.
#include <cstddef>
#include <cstdint>

#include <cublasLt.h>

#include "backend/cuda/module.h"
#include "backend/cuda/module/device.h"

namespace kscout::cuda {

// ---- Loads cuBLASLt at first use: the module runs with any release of the major version that it was built
// for.

// clang-format off
#define KSCOUT_CUBLASLT_FUNCTIONS(F)                                                                          \
  F(Create) F(Matmul) F(MatmulAlgoCheck) F(MatmulAlgoConfigGetAttribute) F(MatmulAlgoConfigSetAttribute)      \
  F(MatmulAlgoGetHeuristic) F(MatmulAlgoInit) F(MatmulDescCreate) F(MatmulDescDestroy)                        \
  F(MatmulDescSetAttribute) F(MatmulPreferenceCreate)                                                         \
  F(MatmulPreferenceDestroy) F(MatmulPreferenceSetAttribute) F(MatrixLayoutCreate) F(MatrixLayoutDestroy)     \
  F(MatrixLayoutSetAttribute) F(GetVersion) F(GetStatusString)
// clang-format on

struct CublasLt {
#define KSCOUT_MEMBER(name) decltype(&cublasLt##name) name;
  KSCOUT_CUBLASLT_FUNCTIONS(KSCOUT_MEMBER)
#undef KSCOUT_MEMBER
};

/// Null when the library cannot be loaded; error_text() has the reason. KSCOUT_CUBLASLT names a file; the
/// default is the usual name of the major version that the module was built for, then the toolkit's folder.
const CublasLt* cublaslt();

/// Prepares an algorithm after the library has checked it; unsupported when the library refuses it.
CallStatus prepare_cublaslt(const AnyShape& shape, std::span<const std::int32_t> axes,
                            std::uint64_t workspace_limit, Matmul** matmul);
CallStatus suggested(const MatmulShape& shape, std::uint64_t workspace_limit, CublasLtConfig* out,
                     std::int32_t capacity, std::int32_t* count);

}  // namespace kscout::cuda
