#pragma once
/// \file
/// cuBLASLt's algorithms: made ready, suggested, enumerated.
///
/// The library's matrices are column-major; ours are given to it as they lie: it computes the transposed
/// C^T = B^T A^T, so its rows are our columns, and its bias along rows is ours along columns.
#include "backend/cuda/module.h"

namespace kscout::cuda {

Answer make_matmul(const MatmulShape& shape, const Algorithm& algorithm, std::uint64_t workspace_limit,
                   Matmul** matmul);
Answer suggested(const MatmulShape& shape, std::uint64_t workspace_limit, Algorithm* out,
                 std::int32_t capacity, std::int32_t* count);
Answer ids_of(const MatmulShape& shape, std::int32_t* out, std::int32_t capacity, std::int32_t* count);
Answer ranges_of(const MatmulShape& shape, std::int32_t id, AlgorithmRanges* ranges);

}  // namespace kscout::cuda
