// The project's own kernels: their rules say what they take, and the module has them.
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/cuda_kernels.h"
#include "backend/cuda/matmul_launch.h"
#include "family/legality.h"

namespace kscout::cuda {

std::string refusal_by_rules(ProblemRef problem, const KernelConfig& config) {
  return rule_refusal(problem, config, gpu_device());
}

std::unique_ptr<Launch> launch_by_module(ProblemRef problem, const KernelConfig& config, const Limits&) {
  return launch_of(prepare_in_module(problem, config));
}

const CudaKernels hopper_kernels{
    .provider = "hopper", .refusal = refusal_by_rules, .prepare = launch_by_module};
const CudaKernels groupwise_kernels{
    .provider = "groupwise", .refusal = refusal_by_rules, .prepare = launch_by_module};

}  // namespace kscout::cuda
