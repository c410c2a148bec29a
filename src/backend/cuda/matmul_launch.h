#pragma once
/// \file
/// Prepares configs in the module, and runs them.
///
///     return launch_of(prepare_in_module(problem, config));
#include <limits>
#include <memory>
#include <span>

#include <kscout/backend.h>
#include <kscout/conv_problem.h>
#include <kscout/grouped_gemm.h>
#include <kscout/problem.h>

#include "backend/cuda/module.h"

namespace kscout::cuda {

/// Converts a problem to the module's form.
MatmulShape shape_of(const GemmProblem& problem);
ConvShape shape_of(const ConvProblem& problem);

/// The values of a config's axes, as Module::prepare takes them.
inline std::span<const std::int32_t> axes_of(const KernelConfig& config) {
  return std::span(config.value).first(config.space->axes.size());
}

struct DestroyMatmul {
  void operator()(Matmul* matmul) const noexcept { matmul->destroy(); }
};
using PreparedMatmul = std::unique_ptr<Matmul, DestroyMatmul>;

/// Calls Module::prepare on the open GPU; null when the result has no elements. Throws unsupported,
/// device_failure.
PreparedMatmul prepare_in_module(ProblemRef problem, const KernelConfig& config,
                                 std::uint64_t workspace_limit = std::numeric_limits<std::uint64_t>::max());

/// A launch of it, with the operands of GemmBuffers.
std::unique_ptr<Launch> launch_of(PreparedMatmul matmul);

}  // namespace kscout::cuda
