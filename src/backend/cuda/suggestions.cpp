// Names what cuBLASLt and cuDNN would run for a problem when nobody chooses for them.
#include <algorithm>
#include <span>

#include <kscout/error.h>
#include <kscout/grouped_gemm.h>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/cudnn_graph.h"
#include "backend/cuda/cudnn_library.h"

namespace kscout::cuda {
namespace {

std::vector<KernelConfig> of_cublaslt(const GemmProblem& problem, std::size_t count, std::int32_t release) {
  Module& module = open_module();
  std::vector<Algorithm> list(count);
  std::int32_t found = 0;
  const CallStatus answer = module.suggest(shape_of(problem), kCublasLtWorkspace, list.data(),
                                           static_cast<std::int32_t>(count), &found);
  if (answer == CallStatus::unsupported) return {};
  check(module, answer);
  std::vector<KernelConfig> configs;
  for (const Algorithm& one : std::span(list).first(static_cast<std::size_t>(found)))
    configs.push_back(config_of(one, release).kernel_config());
  return configs;
}

std::vector<KernelConfig> of_cudnn(const ConvProblem& problem, std::size_t count) {
  open_module();
  const cudnn::Target target = cudnn::Target::gpu();
  std::vector<KernelConfig> configs;
  try {
    const cudnn::ConvGraph graph(problem, target);
    for (const CudnnMode mode : {CudnnMode::a, CudnnMode::fallback}) {
      for (const cudnn::EngineConfig& one : graph.suggestions(mode)) {
        CudnnConfig named = one.named;
        named.version = cudnn::version();
        const KernelConfig config = named.kernel_config(problem.op);
        if (configs.size() < count && std::ranges::find(configs, config) == configs.end())
          configs.push_back(config);
      }
    }
  } catch (const Error& error) {
    if (error.code() != Errc::unsupported) throw;
  }
  return configs;
}

}  // namespace

std::vector<KernelConfig> library_suggestions(ProblemRef problem, std::size_t count, std::int32_t release) {
  if (problem.is<GroupedGemmProblem>()) return {};
  return problem.is<GemmProblem>() ? of_cublaslt(problem.as<GemmProblem>(), count, release)
                                   : of_cudnn(problem.as<ConvProblem>(), count);
}

}  // namespace kscout::cuda
